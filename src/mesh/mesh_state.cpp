// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/impl/mesh_state.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/mesh/torus.hpp"

namespace shard::impl {

namespace {

std::string describe(const std::vector<int>& values) {
  const std::vector<index_t> wide(values.begin(), values.end());
  return text(wide.data(), static_cast<int>(wide.size()));
}

bool is_permutation(std::vector<int> order, int count) {
  std::sort(order.begin(), order.end());
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return order == all;
}

/// The error in the arguments of a mesh; empty if there is none.
std::string complaint(int ranks, const MeshOptions& options, std::size_t axes) {
  const auto count = [](std::size_t n) { return text(static_cast<index_t>(n)); };
  if (!options.grid.empty() && options.grid.size() != axes)
    return "the grid has " + count(options.grid.size()) + " extents and the mesh " + count(axes) +
           " axes";
  if (!options.periodic.empty() && options.periodic.size() != axes)
    return "MeshOptions::periodic is for " + count(options.periodic.size()) +
           " axes and the mesh has " + count(axes);
  if (!options.order.empty() && options.placement != RankPlacement::as_given)
    return "an order is given together with a placement by node or torus, which computes its own "
           "order; give one of them";
  if (!options.order.empty() && !is_permutation(options.order, ranks))
    return "the order " + describe(options.order) + " is not a permutation of the " + text(ranks) +
           " ranks";
  if (options.kept_plans && *options.kept_plans < 1)
    return "kept_plans is " + text(*options.kept_plans) + "; give at least 1";
  std::vector<int> ids;
  for (const DeviceAttributes& device : options.devices) {
    ids.push_back(device.id);
    if (options.placement == RankPlacement::by_node && !device.granule)
      return "device " + text(device.id) + " has no granule; the placement by node needs one";
  }
  if (!ids.empty() && !is_permutation(ids, ranks))
    return "the devices' ids " + describe(ids) + " are not the " + text(ranks) + " ranks";
  if (options.placement == RankPlacement::by_torus && ids.empty())
    return "the placement by torus needs the ranks' coordinates; give MeshOptions::devices";
  return {};
}

/// All options as text, to compare the ranks' arguments.
std::string describe(const std::vector<int>& shape, const MeshOptions& options) {
  std::string words = "shape " + describe(shape) + ", order " + describe(options.order) +
                      ", grid " + text(options.grid.data(), static_cast<int>(options.grid.size()));
  if (options.placement == RankPlacement::as_given) return words;
  words += options.placement == RankPlacement::by_node ? ", by node" : ", by torus";
  for (const bool periodic : options.periodic) words += periodic ? ", periodic" : ", open";
  for (const DeviceAttributes& device : options.devices)
    words += ", device " + text(device.id) + " at " + describe(device.coordinates) + " core " +
             text(device.core) + " granule " + (device.granule ? text(*device.granule) : "none");
  return words;
}

/// All existing meshes. They share one finalize hook of Kokkos, because hooks can't be removed.
class LivingMeshes {
 public:
  static LivingMeshes& instance() {
    static auto* const all =
        new LivingMeshes;  // never destroyed, because meshes may outlive static objects
    return *all;
  }
  void add(MeshState& mesh) {
    const std::lock_guard<std::mutex> lock(mutex_);
    meshes_.insert(&mesh);
  }
  void remove(MeshState& mesh) {
    const std::lock_guard<std::mutex> lock(mutex_);
    meshes_.erase(&mesh);
  }

 private:
  LivingMeshes() {
    Kokkos::push_finalize_hook([this] {
      std::set<MeshState*> all;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        all = meshes_;
      }
      for (MeshState* mesh : all) mesh->drop_plans();
    });
  }

  std::mutex mutex_;
  std::set<MeshState*> meshes_;
};

/// require_agreement() with a Watched.
void require_agreement_to_make(MPI_Comm comm, const char* function, const std::string& asked) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  const Watched watched(
      {.what = "other ranks to make a mesh", .rank = rank, .of = &asked, .times = false});
  require_agreement(comm, function, asked);
}

/// The node of each rank.
std::vector<int> nodes_of(MPI_Comm comm, const std::vector<DeviceAttributes>& given) {
  const std::vector<DeviceAttributes> devices = given.empty() ? devices_of(comm) : given;
  std::vector<int> nodes(devices.size());
  for (const DeviceAttributes& device : devices)
    nodes[static_cast<std::size_t>(device.id)] = device.granule.value_or(0);
  return nodes;
}

/// The order of the ranks on a mesh of this shape.
std::vector<int> placed(MPI_Comm comm, const std::vector<int>& shape, const MeshOptions& options) {
  switch (options.placement) {
    case RankPlacement::by_node: {
      HaloTraffic traffic = HaloTraffic::of_square_shards(shape, options.periodic);
      if (!options.grid.empty()) traffic.grid = options.grid;
      return place_by_node(shape, nodes_of(comm, options.devices), traffic);
    }
    case RankPlacement::by_torus: {
      const DeviceArray torus = physical_mesh(options.devices);
      return assign_torus(torus.shape, shape).place(torus).ids;
    }
    case RankPlacement::as_given: break;
  }
  return options.order;
}

/// Halo points of a rank of a mesh of this shape, up to a factor: the sum of its faces over the
/// volume.
double halo_cells(const std::vector<int>& shape, const std::vector<index_t>& grid) {
  double faces = 0;
  for (std::size_t a = 0; a < shape.size(); ++a)
    if (shape[a] > 1) faces += shape[a] / std::max(1.0, static_cast<double>(grid[a]));
  return faces;
}

/// Whether shape `a` is better. Costs that differ only by rounding are equal.
bool is_better(const std::vector<int>& a, const std::vector<int>& b,
               const std::vector<index_t>& grid) {
  constexpr double rounding = 1e-12;
  const double cost_a = halo_cells(a, grid), cost_b = halo_cells(b, grid);
  if (std::abs(cost_a - cost_b) > rounding * (cost_a + cost_b)) return cost_a < cost_b;
  const auto sum = [](const std::vector<int>& s) { return std::accumulate(s.begin(), s.end(), 0); };
  return sum(a) != sum(b) ? sum(a) < sum(b) : a > b;
}

void choose_from(std::size_t axis, int left, std::vector<int>& trial,
                 const std::vector<int>& wanted, const std::vector<index_t>& grid,
                 std::vector<int>& best) {
  if (axis == wanted.size()) {
    if (left == 1 && (best.empty() || is_better(trial, best, grid))) best = trial;
    return;
  }
  for (int factor = 1; factor <= left; ++factor) {
    if (left % factor != 0 || (wanted[axis] != 0 && wanted[axis] != factor)) continue;
    trial[axis] = factor;
    choose_from(axis + 1, left / factor, trial, wanted, grid, best);
  }
}

}  // namespace

std::vector<int> shape_of(const int* sizes, std::size_t count, int axes) {
  if (count != static_cast<std::size_t>(axes))
    throw_argument("Mesh", {"the shape has ", text(static_cast<index_t>(count)),
                            " numbers and the mesh ", text(axes), " axes; give one for each"});
  return {sizes, sizes + count};
}

void throw_no_mesh() {
  throw_argument("Mesh",
                 {"this mesh is default-constructed and has no ranks; assign one that was made "
                  "on a communicator"});
}

std::vector<int> choose_shape(int ranks, std::vector<int> shape, const std::vector<index_t>& grid) {
  const bool negative = std::any_of(shape.begin(), shape.end(), [](int n) { return n < 0; });
  std::vector<int> best, trial(shape.size(), 1);
  if (!negative)
    choose_from(0, ranks, trial, shape,
                grid.empty() ? std::vector<index_t>(shape.size(), index_t{1} << 20) : grid, best);
  if (best.empty()) {
    index_t product = 1;
    for (const int n : shape)
      if (n != 0) product *= n;
    throw_argument("Mesh", {"the shape ", describe(shape), " (", text(product),
                            " ranks where it is given) does not fit the communicator's ",
                            text(ranks), " ranks; give a shape whose product is ", text(ranks),
                            ", or 0 to let shard choose"});
  }
  return best;
}

std::shared_ptr<MeshState> MeshState::make(MPI_Comm comm, std::vector<int> shape,
                                           const MeshOptions& options) {
  require_communicator(comm, "Mesh");
  std::shared_ptr<MeshState> state(new MeshState);
  MeshState& m      = *state;
  std::string asked = describe(shape, options);
  // the environment may be invalid, or differ, on some ranks
  const std::string wrong_variable = environment_complaint();
  if (!wrong_variable.empty()) {
    asked += ", " + wrong_variable;
  } else {
    m.kept_plans_ = options.kept_plans.value_or(
        static_cast<int>(environment_value("SHARD_KEPT_PLANS").value_or(m.kept_plans_)));
    asked += ", keeps " + impl::text(m.kept_plans_) + " plans";
  }
  check_mpi(MPI_Comm_rank(comm, &m.rank_), "MPI_Comm_rank");
  const Watched watched(
      {.what = "other ranks to make a mesh", .rank = m.rank_, .of = &asked, .times = false});
  await_mpi("MPI_Comm_dup", MPI_Comm_dup, comm, &m.comm_);
  check_mpi(MPI_Comm_set_errhandler(m.comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_size(m.comm_, &m.size_), "MPI_Comm_size");
  require_agreement(m.comm_, "Mesh", asked);
  const std::string wrong =
      wrong_variable.empty() ? complaint(m.size_, options, shape.size()) : wrong_variable;
  if (!wrong.empty()) throw_argument("Mesh", {wrong});
  m.shape_ = choose_shape(m.size_, std::move(shape), options.grid);
  m.order_ = placed(m.comm_, m.shape_, options);

  int place = m.rank_;
  if (!m.order_.empty())
    place =
        static_cast<int>(std::find(m.order_.begin(), m.order_.end(), m.rank_) - m.order_.begin());
  m.coordinates_.resize(m.shape_.size());
  for (std::size_t a = m.shape_.size(), rest = static_cast<std::size_t>(place); a-- > 0;) {
    m.coordinates_[a] = static_cast<int>(rest % static_cast<std::size_t>(m.shape_[a]));
    rest /= static_cast<std::size_t>(m.shape_[a]);
  }

  for (int a = 0; a < m.axes(); ++a) {
    if (m.extent(a) == 1) {  // MPI has few communicators, and making one takes all ranks
      m.axis_comms_.push_back(MPI_COMM_SELF);
      continue;
    }
    std::vector<int> first             = m.coordinates_;
    first[static_cast<std::size_t>(a)] = 0;
    MPI_Comm axis                      = MPI_COMM_NULL;
    await_mpi("MPI_Comm_split", MPI_Comm_split, m.comm_, m.rank_at(first.data()), m.coordinate(a),
              &axis);
    m.axis_comms_.push_back(axis);
  }

  int* limit = nullptr;
  int found  = 0;
  check_mpi(MPI_Comm_get_attr(m.comm_, MPI_TAG_UB, &limit, &found), "MPI_Comm_get_attr");
  if (found != 0) m.tag_limit_ = *limit;

  LivingMeshes::instance().add(m);
  return state;
}

std::shared_ptr<MeshState> MeshState::bind(MPI_Comm comm, const LogicalMesh& mesh, int axes) {
  require_communicator(comm, "Mesh");
  require_agreement_to_make(comm, "Mesh", mesh.text());
  if (mesh.rank() != axes)
    throw_argument("Mesh",
                   {"the logical mesh of shape ", describe(mesh.mesh_shape()), " has ",
                    impl::text(mesh.rank()), " axes and the Mesh's type ", impl::text(axes)});
  int ranks = 0;
  check_mpi(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  mesh.require_devices(ranks);
  MeshOptions options;
  options.order = mesh.device_ids();
  return make(comm, mesh.mesh_shape(), options);
}

std::shared_ptr<MeshState> MeshState::of_domains(MPI_Comm comm, const std::vector<int>& domain,
                                                 const MeshOptions& options) {
  require_communicator(comm, "Mesh::of_domains");
  require_agreement_to_make(comm, "Mesh::of_domains", "domain " + describe(domain));
  int ranks = 0;
  check_mpi(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  index_t size = 1;
  for (const int extent : domain) size = extent < 1 || size > ranks ? 0 : size * extent;
  if (size < 1 || ranks % size != 0)
    throw_argument(
        "Mesh::of_domains",
        {"the world size (", impl::text(ranks), ") must be divisible by the domain's size (",
         domain.size() == 1 ? impl::text(domain[0]) : describe(domain),
         "); give a domain of at least 1 rank that divides it"});
  std::vector<int> shape{static_cast<int>(ranks / size)};
  shape.insert(shape.end(), domain.begin(), domain.end());
  return make(comm, std::move(shape), options);
}

std::string MeshState::axis_names() const {
  std::string names;
  for (const AxisId id : axis_ids_) names += (names.empty() ? "" : ", ") + std::string(id->name);
  return names;
}

LogicalMesh MeshState::logical() const {
  return order_.empty() ? LogicalMesh::of_shape(shape_) : LogicalMesh(order_, shape_);
}

MeshState::~MeshState() {
  LivingMeshes::instance().remove(*this);
  drop_plans();
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  const Watched watched({.what = "other ranks to end a mesh", .rank = rank_});
  for (MPI_Comm& axis : axis_comms_)
    if (axis != MPI_COMM_SELF) MPI_Comm_free(&axis);
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

int MeshState::rank_at(const int* coordinates) const {
  int place = 0;
  for (std::size_t a = 0; a < shape_.size(); ++a) place = place * shape_[a] + coordinates[a];
  return order_.empty() ? place : order_[static_cast<std::size_t>(place)];
}

std::shared_ptr<CachedPlan> MeshState::find(const PlanKey& key) {
  for (Entry& entry : plans_) {
    if (!(entry.key == key)) continue;
    entry.last_use = ++uses_;
    return entry.plan;
  }
  return nullptr;
}

void MeshState::keep(KeptKind kind, const PlanKey& key, std::shared_ptr<CachedPlan> plan) {
  const auto is_such = [&](const Entry& entry) { return entry.kind == kind; };
  if (kind != KeptKind::one_of_its_kind &&
      std::count_if(plans_.begin(), plans_.end(), is_such) >= kept_plans_) {
    const auto oldest =
        std::min_element(plans_.begin(), plans_.end(), [&](const Entry& a, const Entry& b) {
          return is_such(a) && (!is_such(b) || a.last_use < b.last_use);
        });
    leaving_.push_back(std::move(oldest->plan));
    plans_.erase(oldest);
  }
  plans_.push_back({kind, key, std::move(plan), ++uses_});
  std::erase_if(leaving_, [](const auto& left) { return left->may_end(); });
}

void MeshState::drop_plans() {
  plans_.clear();
  leaving_.clear();
}

std::string MeshState::text() const {
  const auto number = [](std::size_t n) { return impl::text(static_cast<index_t>(n)); };
  std::string words = "mesh of " + describe(shape_) + " ranks, this is rank " + impl::text(rank_);
  static constexpr const char* kinds[kept_kinds] = {"exchange plans", "redistribution plans",
                                                    "operands", "buffers"};
  for (std::size_t k = 0; k < kept_kinds; ++k) {
    std::size_t count = 0, bytes = 0;
    for (const Entry& entry : plans_)
      if (entry.kind == static_cast<KeptKind>(k)) {
        ++count;
        bytes += entry.plan->bytes();
      }
    words += std::string("\n") + kinds[k] + ": " + number(count);
    if (static_cast<KeptKind>(k) != KeptKind::one_of_its_kind)
      words += " of at most " + impl::text(kept_plans_);
    words += ", " + number(bytes) + " bytes";
  }
  const auto not_own = std::count(axis_comms_.begin(), axis_comms_.end(), MPI_COMM_SELF);
  words += "\ncommunicators: " + number(1 + axis_comms_.size() - static_cast<std::size_t>(not_own));
  for (const auto& resource : {resource_, device_resource_})
    if (resource && !resource->text().empty()) words += "\n" + resource->text();
  return words + "\n";
}

}  // namespace shard::impl
