// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NetcdfOutput with PnetCDF: all ranks write together.
#include <pnetcdf.h>

#include <exception>
#include <map>

#include "attribute_types.hpp"
#include "classic_header.hpp"
#include "output_file.hpp"
#include "shared_file.hpp"

namespace shard::impl {
namespace {

class ParallelFile final : public OutputFile {
 public:
  ParallelFile(MPI_Comm comm, const std::string& path, const OutputHeader& header, bool large,
               bool extends)
      : comm_(comm), path_(path), file_(create_on_all("NetcdfOutput", path, comm)) {
    if (extends) on_first_rank(comm, [&] { file_->copy_old(); });
    MPI_Info hints = MPI_INFO_NULL;
    check_mpi(MPI_Info_create(&hints), "MPI_Info_create");
    // with collective buffering PnetCDF 1.15.1 hangs where the disk is full
    check_mpi(MPI_Info_set(hints, "romio_cb_write", "disable"), "MPI_Info_set");
    const char* const part = file_->part().c_str();
    const int code =
        extends ? ncmpi_open(comm, part, NC_WRITE, hints, &id_)
                : ncmpi_create(comm, part, NC_CLOBBER | (large ? NC_64BIT_DATA : NC_64BIT_OFFSET),
                               hints, &id_);
    MPI_Info_free(&hints);
    check(code);
    try {
      on_every_rank(comm, [&] {
        file_->reopen();
        if (extends)
          find(header);
        else
          declare(header);
      });
      if (!extends) check(ncmpi_enddef(id_));
    } catch (...) {  // on every rank
      ncmpi_abort(id_);
      throw;
    }
  }
  ~ParallelFile() override {
    // is collective: not where one rank alone may have thrown
    if (file_ != nullptr && std::uncaught_exceptions() == 0) ncmpi_abort(id_);
  }

  void write(const OutputVariable& variable, OutputBoxes boxes) override {
    const std::size_t rank = variable.extents.size();
    std::vector<MPI_Offset> starts(boxes.starts.begin(), boxes.starts.end()),
        counts(boxes.counts.begin(), boxes.counts.end());
    std::vector<MPI_Offset*> start, count;
    for (std::size_t b = 0; b < starts.size(); b += rank) {
      start.push_back(&starts[b]);
      count.push_back(&counts[b]);
    }
    const int id = variables_.at(variable.name), n = static_cast<int>(start.size());
    if (variable.type == NetcdfType::float32)  // PnetCDF would refuse infinity
      check(ncmpi_put_varn_float_all(
          id_, id, n, start.data(), count.data(),
          std::vector<float>(boxes.values.begin(), boxes.values.end()).data()));
    else
      check(ncmpi_put_varn_double_all(id_, id, n, start.data(), count.data(), boxes.values.data()));
  }

  void close() override {
    check(ncmpi_close(id_));
    // PnetCDF ends it after the last value that was written
    on_first_rank(comm_, [&] {
      if (const auto size = read_classic_header(file_->part()).size; size > 0)
        file_->extend(static_cast<index_t>(size));
    });
    on_every_rank(comm_, [&] { file_->sync(); });
    on_first_rank(comm_, [&] { file_->put_in_place(); });
    file_.reset();
  }

 private:
  void require(int code) const {
    if (code != NC_NOERR) throw_io(path_, ncmpi_strerror(code));
  }
  void check(int code) const {
    on_every_rank(comm_, [&] { require(code); });
  }

  void find(const OutputHeader& header) {
    for (const OutputVariable& v : header.variables)
      require(ncmpi_inq_varid(id_, v.name.c_str(), &variables_[v.name]));
  }
  void declare(const OutputHeader& header) {
    std::map<std::string, int> dimensions;
    for (const NetcdfDimension& d : header.dimensions)
      require(
          ncmpi_def_dim(id_, d.name.c_str(), static_cast<MPI_Offset>(d.size), &dimensions[d.name]));
    put(NC_GLOBAL, NC_DOUBLE, header.attributes);
    for (const OutputVariable& v : header.variables) {
      std::vector<int> ids;
      for (const std::string& d : v.dimensions) ids.push_back(dimensions.at(d));
      const nc_type type = type_of(v.type);
      int& id            = variables_[v.name];
      require(
          ncmpi_def_var(id_, v.name.c_str(), type, static_cast<int>(ids.size()), ids.data(), &id));
      put(id, type, v.attributes);
    }
  }
  void put(int variable, nc_type type, const std::vector<NetcdfAttribute>& attributes) const {
    for (const NetcdfAttribute& a : attributes) {
      if (const auto* text = std::get_if<std::string>(&a.value))
        require(ncmpi_put_att_text(id_, variable, a.name.c_str(),
                                   static_cast<MPI_Offset>(text->size()), text->c_str()));
      else
        put_number(variable, type, a);
    }
  }
  void put_number(int variable, nc_type type, const NetcdfAttribute& a) const {
    const double value   = *number_of(a);
    const nc_type stored = has_variables_type(a.name)               ? type
                           : std::holds_alternative<int>(a.value)   ? NC_INT
                           : std::holds_alternative<float>(a.value) ? NC_FLOAT
                                                                    : NC_DOUBLE;
    require(ncmpi_put_att_double(id_, variable, a.name.c_str(), stored, 1, &value));
  }
  static nc_type type_of(NetcdfType type) {
    switch (type) {
      case NetcdfType::int8: return NC_BYTE;
      case NetcdfType::int16: return NC_SHORT;
      case NetcdfType::int32: return NC_INT;
      case NetcdfType::float32: return NC_FLOAT;
      default: return NC_DOUBLE;
    }
  }

  MPI_Comm comm_;
  std::string path_;
  std::unique_ptr<NewFile> file_;
  int id_ = -1;
  std::map<std::string, int> variables_{};
};

}  // namespace

void require_output_library(const std::string&) {}

std::unique_ptr<OutputFile> make_output_file(MPI_Comm comm, const std::string& path,
                                             const OutputHeader& header, bool large, bool extends) {
  return std::make_unique<ParallelFile>(comm, path, header, large, extends);
}

}  // namespace shard::impl
