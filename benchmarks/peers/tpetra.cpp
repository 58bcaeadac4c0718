// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tpetra's Import into a vector of the halo cells alone, a column per field. The source is the
// fields' own memory; the target is a vector of its own, for an Import into the fields' memory
// would copy the owned cells too.
#include <Tpetra_Core.hpp>
#include <Tpetra_Import.hpp>
#include <Tpetra_Map.hpp>
#include <Tpetra_MultiVector.hpp>

#include "problem.hpp"

namespace peers {

namespace {

using Map      = Tpetra::Map<>;
using Vector   = Tpetra::MultiVector<double>;
using Global   = Map::global_ordinal_type;
using DualView = Vector::dual_view_type;
using Values   = DualView::t_dev;
using Teuchos::RCP;
using Teuchos::rcp;

class TpetraImport : public Competitor {
 public:
  TpetraImport(const Problem& p, const std::vector<std::byte*>& columns, index_t spacing)
      : problem_(p) {
    for (std::byte* origin : p.origins)
      column_.push_back(static_cast<std::size_t>(std::find(columns.begin(), columns.end(), origin) -
                                                 columns.begin()));
    index_t before = 0, size = 1;
    for (std::size_t d = 0; d < dims; ++d) {
      before += p.width[d] * p.stride[d];
      size += (p.extent[d] - 1 + 2 * p.width[d]) * p.stride[d];
    }
    // Owned cells have the number of their place in the world; what lies between them in memory,
    // the halo, has numbers that nobody asks for.
    const Sources sources(p);
    const index_t world = p.global[0] * p.global[1] * p.global[2];
    int rank            = 0;
    MPI_Comm_rank(p.comm, &rank);
    index_t allocated = size, unasked = 0;
    MPI_Exscan(&allocated, &unasked, 1, MPI_INT64_T, MPI_SUM, p.comm);
    if (rank == 0) unasked = 0;
    std::vector<Global> here(static_cast<std::size_t>(size)), asked;
    for (std::size_t i = 0; i < here.size(); ++i)
      here[i] = static_cast<Global>(world + unasked + static_cast<index_t>(i));
    const auto number = [&](const std::array<index_t, dims>& at) {
      return static_cast<Global>((at[0] * p.global[1] + at[1]) * p.global[2] + at[2]);
    };
    for_cells(p, {{}, p.extent}, [&](const std::array<index_t, dims>& at, index_t offset) {
      here[static_cast<std::size_t>(before + offset)] =
          number({p.begin[0] + at[0], p.begin[1] + at[1], p.begin[2] + at[2]});
    });
    for (int d = 0; d < dims; ++d)
      if (p.width[static_cast<std::size_t>(d)] > 0)
        for (const Box& box : {low_halo(p, d), high_halo(p, d)})
          for_cells(p, box, [&](const std::array<index_t, dims>& at, index_t offset) {
            asked.push_back(number(sources.of(at).at));
            place_.push_back({offset, 0});
          });
    // a cell that several halo cells copy is asked for once: a Map's numbers differ
    std::vector<Global> wanted = asked;
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    for (std::size_t i = 0; i < asked.size(); ++i)
      place_[i].row = std::lower_bound(wanted.begin(), wanted.end(), asked[i]) - wanted.begin();
    const auto comm    = rcp(new Teuchos::MpiComm<int>(p.comm));
    const auto unknown = Teuchos::OrdinalTraits<Tpetra::global_size_t>::invalid();
    const auto from    = rcp(new Map(unknown, Teuchos::arrayViewFromVector(here), 0, comm));
    const auto to      = rcp(new Map(unknown, Teuchos::arrayViewFromVector(wanted), 0, comm));
    import_            = rcp(new Tpetra::Import<>(from, to));
    const Kokkos::View<double**, Kokkos::LayoutLeft, Values::device_type,
                       Kokkos::MemoryTraits<Kokkos::Unmanaged>>
        all(reinterpret_cast<double*>(columns.front()) - before,
            static_cast<std::size_t>(columns.size() > 1 ? spacing : size), columns.size());
    const Values values = Kokkos::subview(
        all, std::pair<std::size_t, std::size_t>(0, static_cast<std::size_t>(size)), Kokkos::ALL());
    from_ = rcp(new Vector(from, DualView(values, values)));
    to_   = rcp(new Vector(to, columns.size()));
  }

  void exchange() override { to_->doImport(*from_, *import_, Tpetra::INSERT); }
  void deliver() override {
    for (std::size_t f = 0; f < problem_.origins.size(); ++f) {
      auto* field       = reinterpret_cast<double*>(problem_.origins[f]);
      const auto values = to_->getData(column_[f]);
      for (const Place& place : place_)
        field[place.offset] = values[static_cast<Teuchos::Ordinal>(place.row)];
    }
  }

 private:
  Problem problem_;
  std::vector<std::size_t> column_;
  struct Place {
    index_t offset, row;  // of the field's halo cell, of the vector
  };
  std::vector<Place> place_;
  RCP<Tpetra::Import<>> import_;
  RCP<Vector> from_, to_;
};

}  // namespace

std::unique_ptr<Competitor> make_tpetra(const Problem& p, std::string& reason) {
  if (p.value_bytes != sizeof(double)) {
    reason = "this Tpetra's vectors are double";
    return nullptr;
  }
  std::vector<std::byte*> columns = p.origins;
  std::sort(columns.begin(), columns.end());
  index_t spacing = 0;
  int even        = 1;
  for (std::size_t f = 1; f < columns.size(); ++f) {
    const index_t distance =
        reinterpret_cast<double*>(columns[f]) - reinterpret_cast<double*>(columns[f - 1]);
    if (f == 1) spacing = distance;
    even = even != 0 && distance == spacing ? 1 : 0;
  }
  MPI_Allreduce(MPI_IN_PLACE, &even, 1, MPI_INT, MPI_MIN, p.comm);
  if (even == 0) {
    reason = "the fields don't lie at even distances, as columns of a MultiVector do";
    return nullptr;
  }
  if (!Tpetra::isInitialized()) Tpetra::initialize(nullptr, nullptr);
  return std::make_unique<TpetraImport>(p, columns, spacing);
}

void end_tpetra() {
  if (Tpetra::isInitialized()) Tpetra::finalize();
}

}  // namespace peers
