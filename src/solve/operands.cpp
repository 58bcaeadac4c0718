// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/solve/impl/operands.hpp"

#include <string>

#include "shard/base/error.hpp"
#include "shard/mesh/impl/mesh_state.hpp"

namespace shard::impl {

MPI_Comm owners_of(std::string_view function, const Geometry& field, int d) {
  const DimGeometry& dim = field.dims[Geometry::at(d)];
  if (dim.axis_count > 1)
    throw_argument(function, {"dimension ", text(index_t{d}), " of \"", field.label,
                              "\" is sharded over several mesh axes; shard it over one"});
  return dim.axis_count == 0 ? MPI_COMM_SELF : field.mesh->axis_comm(dim.axes[0]);
}

void require_contiguous(MPI_Comm comm, std::string_view function, const Geometry& field,
                        index_t count, index_t stride) {
  require_no_error(comm, function,
                   count < 2 || stride == 1
                       ? std::string()
                       : "\"" + field.label + "\" has a stride of " + text(stride) +
                             ", and the library takes contiguous elements; copy it to a field of "
                             "its own memory");
}

}  // namespace shard::impl
