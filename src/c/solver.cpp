// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Kokkos_Core.hpp>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "field_multigrid.hpp"
#include "field_operator.hpp"
#include "handles.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/preconditioners.hpp"

namespace shard::c {

/// An operator and a method, type-erased.
struct AnySolver {
  AnySolver()                                                               = default;
  AnySolver(const AnySolver&)                                               = delete;
  AnySolver& operator=(const AnySolver&)                                    = delete;
  virtual ~AnySolver()                                                      = default;
  virtual void apply(const shard_field_s& y, const shard_field_s& x)        = 0;
  virtual SolveResult solve(const shard_field_s& x, const shard_field_s& b) = 0;
  virtual void update()                                                     = 0;
};

namespace {

using impl::text;

template <class Memory>
class FieldSolver final : public AnySolver {
  using V = Vector<Memory>;
  using A = FieldOperator<Memory>;

 public:
  FieldSolver(const shard_field_s& like, std::shared_ptr<const StencilOfFields> stencil,
              const shard_solver_options& given)
      : a_(like, std::move(stencil)), x_(vector_like<Memory>(like)), b_(vector_like<Memory>(like)) {
    SolveOptions options;
    if (given.relative != 0 || given.absolute != 0) options.relative = given.relative;
    options.absolute = given.absolute;
    if (given.iterations > 0) options.iterations = given.iterations;
    if (given.restart > 0) options.restart = given.restart;
    if (given.singular != 0) options.nullspace = Nullspace::constant;
    if (given.order == shard_ordered) options.determinism = Determinism::ordered;
    const auto make = [this, given, options] {
      if (given.preconditioner == shard_multigrid)
        choose(shard_cg, FieldMultigrid<Memory>(a_, given.smoothing > 0 ? given.smoothing : 2),
               options);
      else if (given.preconditioner == shard_jacobi)
        choose(given.method, Jacobi<V>(space_of<Memory>(), x_, a_), options);
      else
        choose(given.method, Identity{}, options);
    };
    make();
    update_ = make;
  }
  void update() override { update_(); }
  void apply(const shard_field_s& y, const shard_field_s& x) override {
    load(x_, x);
    a_.apply(space_of<Memory>(), b_, x_);
    store(y, b_);
  }
  SolveResult solve(const shard_field_s& x, const shard_field_s& b) override {
    load(x_, x);
    load(b_, b);
    const SolveResult result = method_(x_, b_);
    store(x, x_);
    return result;
  }

 private:
  template <class M>
  void choose(int method, const M& preconditioner, const SolveOptions& options) {
    const auto keep = [&](auto solver) {
      method_ = [kept = std::make_shared<decltype(solver)>(std::move(solver))](
                    const V& x, const V& b) { return (*kept)(space_of<Memory>(), x, b); };
    };
    if (method == shard_gmres)
      keep(GMRES<V, A, M>(x_, a_, preconditioner, options));
    else
      keep(CG<V, A, M>(x_, a_, preconditioner, options));
  }
  static void load(const V& to, const shard_field_s& from) {
    impl::write_points("shard::field_to_vector", space_of<Memory>(), to,
                       LoadVectorKernel<V>{to, values_of(from), strides_of(from)});
  }
  static void store(const shard_field_s& to, const V& from) {
    const auto space = space_of<Memory>();
    parallel_for("shard::vector_to_field", space, owned_region(from),
                 StoreVectorKernel<V>{from, values_of(to), strides_of(to)});
    space.fence("shard_solver: the result is in the field");
  }

  A a_;
  V x_, b_;
  std::function<SolveResult(const V&, const V&)> method_;
  std::function<void()> update_;
};

/// What is wrong with the boundary of one side of a linear operator's field; "" if nothing is.
std::string unfit(const BoundarySide& side, int d) {
  const bool is_linear = side.kind != BoundaryKind::given && side.kind != BoundaryKind::by_index &&
                         !impl::is_north(side.kind) &&
                         (side.kind != BoundaryKind::constant || side.value == 0.0);
  return is_linear ? ""
                   : "dimension " + text(d) + " has the boundary " + impl::text(side) +
                         "; of an operator it is zero, periodic, reflect, symmetric, clamp or a "
                         "pole fold";
}

/// What is wrong with a stencil; "" if nothing is.
std::string unfit(const shard_field_s& x, int points, const int* offsets,
                  const shard_field* coefficients, const shard_solver_options& options) {
  const int rank = x.geometry.rank;
  if (x.blocks != nullptr) return "a blocked array";
  if (x.kind != impl::ValueKind::f64) return "the values aren't double";
  if (rank > rank_of_solver) return "the fields have " + text(rank) + " dimensions; at most 3";
  if (points < 1 || points > most_points)
    return text(points) + " points; a stencil has 1 to " + text(most_points);
  if (offsets == nullptr || coefficients == nullptr) return "a list is null";
  if (options.method != shard_cg && options.method != shard_gmres)
    return "there is no method " + text(options.method);
  if (options.preconditioner != shard_identity && options.preconditioner != shard_jacobi &&
      options.preconditioner != shard_multigrid)
    return "there is no preconditioner " + text(options.preconditioner);
  if (options.preconditioner == shard_multigrid && options.method != shard_cg)
    return "multigrid is for a symmetric A, so the method is CG";
  bool has_centre = false;
  for (int p = 0; p < points; ++p) {
    bool is_centre = true;
    for (int d = 0; d < rank; ++d) {
      const int o      = offsets[p * rank + d];
      const auto& type = x.types[impl::Geometry::at(d)];
      is_centre        = is_centre && o == 0;
      if (o < -type.lo || o > type.hi)
        return "point " + text(p) + " is " + text(o) + " away in dimension " + text(d) +
               ", whose halo is " + text(type.lo) + "+" + text(type.hi);
    }
    has_centre = has_centre || is_centre;
    if (coefficients[p] == nullptr) return "a coefficient is null";
    if (coefficients[p]->blocks != nullptr) return "a blocked array";
    if (coefficients[p]->kind != x.kind || coefficients[p]->on_device != x.on_device)
      return "coefficient " + text(p) + " has another type or memory than x";
  }
  if (options.preconditioner != shard_identity && !has_centre)
    return "the preconditioner needs the coefficient of the element itself";
  for (int d = 0; d < rank; ++d) {
    const auto& type = x.types[impl::Geometry::at(d)];
    if (type.indices != nullptr) return "dimension " + text(d) + " is of an index space";
    for (const BoundarySide* side : {&type.low, &type.high})
      if (type.lo + type.hi > 0)
        if (const std::string wrong = unfit(*side, d); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

}  // namespace shard::c

struct shard_solver_s : shard::c::Counted {
  std::shared_ptr<shard::c::AnySolver> solver;
  shard::impl::Geometry geometry;
  bool on_device = false;
  std::string description;

  std::string describe() const override { return description + "\n"; }
  void require_fits(const char* function, const shard_field_s& field) const {
    shard::impl::require_same_points(function, geometry, field.geometry);
    if (field.kind != shard::impl::ValueKind::f64 || field.on_device != on_device ||
        field.blocks != nullptr)
      shard::impl::throw_argument(function,
                                  {"\"", field.geometry.label,
                                   "\" has another type or memory than the solver, or is blocked"});
  }
};

int shard_solver_create(shard_field x, int points, const int* offsets,
                        const shard_field* coefficients, const shard_solver_options* options,
                        shard_solver* solver) {
  using namespace shard;
  using namespace shard::c;
  return guarded([&] {
    shard_solver& made        = require(solver, "the solver to be made");
    const shard_field_s& like = require(x, "the field");
    const shard_solver_options none{};
    const auto& given   = options == nullptr ? none : *options;
    const MPI_Comm comm = like.geometry.mesh->comm();
    impl::require_no_error(comm, "solver_create",
                           unfit(like, points, offsets, coefficients, given));
    auto stencil         = std::make_shared<StencilOfFields>();
    std::string describe = "method " + text(given.method) + ", preconditioner " +
                           text(given.preconditioner) + ", points";
    for (int p = 0; p < points; ++p) {
      impl::require_same_points("solver_create", like.geometry, coefficients[p]->geometry);
      shard_field_retain(coefficients[p]);
      stencil->coefficients.push_back(coefficients[p]);
      auto& of = stencil->offsets.emplace_back();
      for (int d = 0; d < like.geometry.rank; ++d) {
        of[impl::Geometry::at(d)] = offsets[p * like.geometry.rank + d];
        describe += (d == 0 ? " (" : ", ") + text(of[impl::Geometry::at(d)]);
      }
      describe += ")";
    }
    impl::require_agreement(comm, "solver_create", describe);
    auto handle         = std::make_unique<shard_solver_s>();
    handle->geometry    = like.geometry;
    handle->description = "solver of " + describe;
    handle->on_device   = like.on_device;
    if (like.on_device)
      handle->solver = std::make_shared<FieldSolver<DeviceMemory>>(like, stencil, given);
    else
      handle->solver = std::make_shared<FieldSolver<Kokkos::HostSpace>>(like, stencil, given);
    made = handle.release();
  });
}
int shard_solver_retain(shard_solver solver) { return shard::c::retain(solver, "the solver"); }
int shard_solver_release(shard_solver* solver) { return shard::c::release(solver, "the solver"); }

int shard_solver_update(shard_solver solver) {
  return shard::c::guarded([&] { shard::c::require(solver, "the solver").solver->update(); });
}
int shard_solver_apply(shard_solver solver, shard_field y, shard_field x) {
  using namespace shard::c;
  return guarded([&] {
    auto& s = require(solver, "the solver");
    s.require_fits("solver_apply", require(y, "y"));
    s.require_fits("solver_apply", require(x, "x"));
    s.solver->apply(*y, *x);
  });
}

int shard_solver_solve(shard_solver solver, shard_field x, shard_field b,
                       shard_solve_result* result) {
  using namespace shard::c;
  return guarded([&] {
    auto& s     = require(solver, "the solver");
    auto& found = require(result, "the result");
    s.require_fits("solver_solve", require(x, "x"));
    s.require_fits("solver_solve", require(b, "b"));
    const shard::SolveResult of = s.solver->solve(*x, *b);
    found = {of ? 1 : 0, static_cast<int>(of.status), of.iterations, of.residual, of.rhs};
  });
}
