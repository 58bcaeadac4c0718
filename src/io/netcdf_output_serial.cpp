// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NetcdfOutput without PnetCDF: the ranks send their values in turn to the first, which writes.
#include <span>

#include "output_file.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shared_file.hpp"

namespace shard::impl {
namespace {

class SerialFile final : public OutputFile {
 public:
  SerialFile(MPI_Comm comm, const std::string& path, const OutputHeader& header, bool large,
             bool extends)
      : comm_(comm) {
    require_same_path("NetcdfOutput", path, comm);
    check_mpi(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm, &size_), "MPI_Comm_size");
    on_first([&] {
      writer_ = std::make_unique<NetcdfWriter>(
          path, large, extends ? ExistingFile::extend : ExistingFile::replace);
      if (extends) return;
      for (const NetcdfDimension& d : header.dimensions) writer_->add_dimension(d.name, d.size);
      for (const NetcdfAttribute& a : header.attributes) writer_->add_attribute(a);
      for (const OutputVariable& v : header.variables)
        writer_->add_variable(v.name, v.dimensions, v.type, v.attributes);
    });
  }

  void write(const OutputVariable& variable, OutputBoxes boxes) override {
    const std::size_t rank = variable.extents.size();
    for (int from = 0; from < size_; ++from) {
      bring(from, boxes.starts);
      bring(from, boxes.counts);
      bring(from, boxes.values);
      on_first([&] {
        for (std::size_t b = 0, first = 0; b < boxes.starts.size(); b += rank) {
          const std::span count = std::span(boxes.counts).subspan(b, rank);
          std::size_t size      = 1;
          for (const std::size_t n : count) size *= n;
          writer_->write(variable.name, std::span(boxes.starts).subspan(b, rank), count,
                         std::span(boxes.values).subspan(first, size));
          first += size;
        }
      });
    }
  }

  void close() override {
    on_first([&] { writer_->close(); });
  }

 private:
  template <class Body>
  void on_first(const Body& body) const {
    on_first_rank(comm_, [&] {
      try {
        body();
      } catch (const NetcdfError& e) {
        throw IoError(e.what());
      }
    });
  }

  /// Brings the values of rank `from` to the first rank.
  template <class T>
  void bring(int from, std::vector<T>& values) const {
    std::size_t size = values.size();
    const auto move  = [&](void* data, std::size_t bytes) {
      const int count = static_cast<int>(bytes);
      if (rank_ == from)
        await_mpi("MPI_Send", MPI_Send, data, count, MPI_BYTE, 0, 0, comm_);
      else
        await_mpi("MPI_Recv", MPI_Recv, data, count, MPI_BYTE, from, 0, comm_, MPI_STATUS_IGNORE);
    };
    if (from == 0 || (rank_ != from && rank_ != 0)) return;
    move(&size, sizeof size);
    values.resize(size);
    move(values.data(), size * sizeof(T));
  }

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  std::unique_ptr<NetcdfWriter> writer_{};
};

}  // namespace

void require_output_library(const std::string& path) {
  if (!netcdf_available()) const NetcdfWriter refuses(path);
}

std::unique_ptr<OutputFile> make_output_file(MPI_Comm comm, const std::string& path,
                                             const OutputHeader& header, bool large, bool extends) {
  return std::make_unique<SerialFile>(comm, path, header, large, extends);
}

}  // namespace shard::impl
