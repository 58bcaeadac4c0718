/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef SHARD_C_SHARD_H
#define SHARD_C_SHARD_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/** \file
 * shard from C, and for languages that call C. The engine is that of the C++ library; here types,
 * ranks and halos are values.
 *
 * Every function returns 0, or an error_code; then shard_error_message() has the sentence, and the
 * handler, if one is set, has been called. No C++ exception leaves a function. What is collective
 * fails on every rank that takes part. Call from one thread, outside of parallel regions.
 *
 * Handles are counted: create and wrap give a count of one, retain adds one, release takes one
 * away; the object ends with the last. What an object was made of lives as long as the object. A
 * handle that is released is NULL afterwards. Dimensions and axes count from 0.
 */

#ifdef __cplusplus
extern "C" {
#endif

/** What went wrong. */
enum shard_error_code {
  shard_ok              = 0, /**< nothing */
  shard_error_argument  = 1, /**< an argument is invalid */
  shard_error_agreement = 2, /**< the ranks gave different arguments; the message has both */
  shard_error_mpi       = 3, /**< an MPI call failed */
  shard_error_stale     = 4, /**< with SHARD_CHECK=1: a stale halo or a changed message */
  shard_error_other     = 5, /**< anything else, such as no memory */
  shard_error_io        = 6  /**< a file can't be read or written */
};

/** The sentence of the last error of this thread; "" if there was none. Valid until the next call. */
const char* shard_error_message(void);

/** Called with each error, before the function returns, from the thread that called it. */
typedef void (*shard_error_handler)(int code, const char* message);
/** Sets the handler of the process, NULL for none. Returns 0. */
int shard_set_error_handler(shard_error_handler handler);

/** Starts Kokkos unless it is running. MPI must be running. Collective over `comm`. */
int shard_initialize(MPI_Comm comm);
/** The same with Fortran's communicator. */
int shard_initialize_f(MPI_Fint comm);
/** Ends what shard_initialize started. Release all handles first. */
int shard_finalize(void);

/** A mesh of ranks: up to 5 axes. */
typedef struct shard_mesh_s* shard_mesh;
/** Elements with global ids, sharded over an axis: cells, edges, columns. */
typedef struct shard_space_s* shard_space;
/** A field: an array of the caller's on each rank, and what it is a part of. */
typedef struct shard_field_s* shard_field;
/** A plan that fills the halos of fields. */
typedef struct shard_exchange_s* shard_exchange;

/** Makes a mesh. `sizes`: ranks along each axis, 0 for those to be chosen. Coordinates are
 * row-major, the last axis the fastest. Collective over `comm`, which is duplicated. */
int shard_mesh_create(MPI_Comm comm, int axes, const int* sizes, shard_mesh* mesh);
/** The same with Fortran's communicator. */
int shard_mesh_create_f(MPI_Fint comm, int axes, const int* sizes, shard_mesh* mesh);
/** Another owner. Local. */
int shard_mesh_retain(shard_mesh mesh);
/** One owner less; *mesh becomes NULL. The last release is collective over the mesh. */
int shard_mesh_release(shard_mesh* mesh);
/** Ranks along an axis, and this rank's coordinate there. Local. */
int shard_mesh_axis(shard_mesh mesh, int axis, int* size, int* coordinate);
/** The rank, in the mesh's communicator, `step` further along an axis; -1 beyond its end. Local. */
int shard_mesh_neighbour(shard_mesh mesh, int axis, int step, int* rank);
/** The elements of a dimension of `n` that this rank owns if it is balanced over an axis. Local. */
int shard_mesh_owned(shard_mesh mesh, int axis, int64_t n, int64_t* first, int64_t* count);

/** Makes an index space over an axis. `ids`: any 64-bit numbers of this rank's places, the first
 * `owned` its own, the others its halo; an id is owned by one rank. `layers`: of each place of the
 * halo, from 1, not falling; NULL: all 1. Collective over the mesh. */
int shard_space_create(shard_mesh mesh, int axis, int64_t places, const int64_t* ids, int64_t owned,
                       const int* layers, shard_space* space);
/** Another owner. Local. */
int shard_space_retain(shard_space space);
/** One owner less; *space becomes NULL. Local. */
int shard_space_release(shard_space* space);

/** Memory of shard_allocate. */
typedef struct shard_allocation_s* shard_allocation;
/** Makes memory for an array of this rank, set to zero, which neighbours on the node read in place:
 * an exchange copies long contiguous runs once, of other memory twice. Ordinary memory where none
 * can be shared. It lives as long as the handle, which must outlive the fields and exchanges of the
 * array. Sizes may differ between ranks. Collective over the mesh. */
int shard_allocate(shard_mesh mesh, int64_t bytes, shard_allocation* allocation, void** data);
/** Another owner. Local. */
int shard_allocation_retain(shard_allocation allocation);
/** Its first byte again. Local. */
int shard_allocation_address(shard_allocation allocation, void** data);
/** One owner less; *allocation becomes NULL. Local. */
int shard_allocation_release(shard_allocation* allocation);

/** The type of values. */
enum shard_type {
  shard_float,         /**< 32 bits */
  shard_double,        /**< 64 bits */
  shard_int32,         /**< signed */
  shard_int64,         /**< signed */
  shard_complex_float, /**< two floats */
  shard_complex_double /**< two doubles */
};

/** Where an array is. */
enum shard_memory {
  shard_host,  /**< the processor's memory */
  shard_device, /**< the memory of Kokkos' default device; the host's in a build without one */
  shard_asked   /**< the runtime of CUDA or HIP is asked; managed memory is the device's */
};

/** The map of elements outside the domain; the types of view/boundary.hpp as values. */
enum shard_boundary_kind {
  shard_constant,   /**< `value`; zero by default */
  shard_periodic,   /**< on both sides of a dimension */
  shard_reflect,    /**< about the edge element, which isn't repeated */
  shard_symmetric,  /**< about the edge, so the edge element is repeated */
  shard_clamp,      /**< the edge element */
  shard_pole_fold,  /**< across the pole: mirrored, half the globe away in `dimension` */
  shard_north_fold, /**< the northern edge of a tripolar grid; high side only */
  shard_given,      /**< the caller's: an exchange leaves them; see shard_exchange_set_boundary */
  shard_by_index    /**< `each[i]` for index i of `dimension`, which isn't sharded */
};

/** Where a latitude axis has its poles. */
enum shard_pole { shard_pole_on_row, shard_pole_between_rows };
/** The point about which a north fold turns. */
enum shard_pivot { shard_t_point, shard_u_point, shard_f_point };
/** Where a field's points are in their cells. */
enum shard_position {
  shard_at_centre,
  shard_at_east,
  shard_at_north,
  shard_at_north_east,
  shard_at_west,
  shard_at_south,
  shard_at_south_west
};

/** A boundary of one side. All zeros is the constant 0. */
typedef struct shard_boundary {
  int kind;      /**< a shard_boundary_kind */
  int odd;       /**< 1: the sign changes at each crossing (reflect, symmetric, folds) */
  int dimension; /**< of a fold the longitude dimension; of by_index the dimension of the index */
  int pole;      /**< a shard_pole */
  int pivot;     /**< a shard_pivot */
  int position;  /**< a shard_position */
  double value;  /**< of a constant */
  int count;     /**< of by_index: how many */
  const struct shard_boundary* each; /**< of by_index */
} shard_boundary;

/** A dimension of a field. */
typedef struct shard_dimension {
  int64_t extent;        /**< elements of all ranks; of a space's dimension it isn't read */
  int axis;              /**< the mesh axis that shards it, -1 for none */
  shard_space space;     /**< the elements are those of an index space, owned ones first, then its
                              halo; NULL for others */
  const int64_t* begins; /**< the first element of each rank along the axis, then `extent`: the
                              model's own decomposition; NULL: balanced */
  int halo_low;          /**< elements of the halo before the owned ones */
  int halo_high;         /**< and after them */
  shard_boundary low;    /**< outside the domain, before element 0 */
  shard_boundary high;   /**< and after the last */
} shard_dimension;

/** Makes a field of an array that the caller keeps. `data` is the first element of the array, which
 * has the halo; `local`: its extents, compared with those of the owned elements and the halo;
 * `strides` in elements (NULL: the last dimension is contiguous, no padding). The rank is 1 to 6.
 * `name` is for messages. Collective over the mesh. */
int shard_field_wrap(shard_mesh mesh, const char* name, void* data, int type, int memory, int rank,
                     const shard_dimension* dimensions, const int64_t* local,
                     const int64_t* strides, shard_field* field);
/** The same of an array in blocks (nproma, ..., block), in which dimension `blocked` of the field is
 * divided: element i, with the halo in front, is lane i % nproma of block i / nproma. The array has a
 * dimension more than the field, the last in `local` and `strides`; local[blocked] is nproma,
 * local[rank] the number of blocks, the last of which may be short. `strides` must be given.
 * Functions that take the field copy the array to memory in order and back. */
int shard_field_wrap_blocked(shard_mesh mesh, const char* name, void* data, int type, int memory,
                             int rank, const shard_dimension* dimensions, int blocked,
                             const int64_t* local, const int64_t* strides, shard_field* field);
/** Another owner. Local. */
int shard_field_retain(shard_field field);
/** One owner less; *field becomes NULL. Local. */
int shard_field_release(shard_field* field);
/** From now on the field is this array, of the same extents and strides: a swap of time levels.
 * Plans that were made for it use the new one. Local; costs nothing. */
int shard_field_rebind(shard_field field, void* data);
/** The elements that this rank owns in a dimension. Local. */
int shard_field_owned(shard_field field, int dimension, int64_t* first, int64_t* count);

/** How an exchange groups what goes by MPI to one neighbour: by default in one message, which
 * leaves in parts if it is long, goes to another host, and some host has no RDMA device. */
enum shard_message_layout {
  shard_one_message = 0,
  shard_short_messages /**< of at most 4000 bytes, as far as the parts of the halo are as short: MPI
                            sends these at once, a longer one after an answer. The same on all ranks */
};

/** Options of an exchange: all zeros is the whole halo. */
typedef struct shard_exchange_options {
  int faces;     /**< 1: without corners, for star-shaped stencils */
  int width;     /**< more than 0: up to this width on each side */
  int layers;    /**< more than 0: up to this layer of index spaces */
  unsigned axes; /**< not 0: only halos along these axes, a bit for each */
  int messages;  /**< a shard_message_layout */
} shard_exchange_options;

/** Makes a plan for fields of one mesh and memory, one message for each neighbour. `options` may be
 * NULL; there may be no fields, until some are added. Collective over the mesh. */
int shard_exchange_create(int count, const shard_field* fields,
                          const shard_exchange_options* options, shard_exchange* exchange);
/** One field more, in the same messages, known by the name that it was wrapped with. Local; the next
 * run or start is collective over the mesh, and an error if the ranks' fields differ. */
int shard_exchange_add(shard_exchange exchange, shard_field field);
/** One field less. As shard_exchange_add. */
int shard_exchange_remove(shard_exchange exchange, const char* name);
/** Fills the elements of a field that are outside the domain on one side of a dimension: those with
 * begin[d] <= i[d] < end[d], where i counts from the field's first owned element, at `origin` (NULL
 * of a blocked array). Their
 * other indices may be in the halo, which is filled. `adjoint` is 1 in the transpose: then it adds
 * what their cotangents give to the elements that it read, and zeroes them. */
typedef void (*shard_boundary_function)(void* context, const char* name, void* origin, int rank,
                                        int adjoint, int dimension, int high, const int64_t* begin,
                                        const int64_t* end);
/** A boundary of the caller's own: calls `fill` on the host for each side of the fields that is
 * shard_given and has such elements on this rank. Each run or finish calls it after the halos are
 * filled, the highest dimension first; each adjoint before it starts, the lowest first. Work on the
 * device is complete then. NULL: none. Local. */
int shard_exchange_set_boundary(shard_exchange exchange, shard_boundary_function fill,
                                void* context);
/** Another owner. Local. */
int shard_exchange_retain(shard_exchange exchange);
/** One owner less; *exchange becomes NULL. Local. */
int shard_exchange_release(shard_exchange* exchange);
/** Fills the halos. Only neighbours take part. */
int shard_exchange_run(shard_exchange exchange);
/** The transpose: adds each halo element to the owned one that it is a copy of, and zeroes the
 * halo. The order of additions is fixed. */
int shard_exchange_adjoint(shard_exchange exchange);
/** Sends what neighbours need, and returns. */
int shard_exchange_start(shard_exchange exchange);
/** The same of the transpose. */
int shard_exchange_start_adjoint(shard_exchange exchange);
/** Waits for what the earliest start that isn't finished began. */
int shard_exchange_finish(shard_exchange exchange);
/** Lets the messages of the earliest start that isn't finished progress, and never waits. Call it
 * between pieces of a long computation: over a network most MPIs send messages of 16 KiB and more
 * only while they are called. Halos may be read after shard_exchange_finish. Local. */
int shard_exchange_advance(shard_exchange exchange);

/** Copies the owned elements of `from` to `to`: other partitions, sharded dimensions, halos,
 * strides, of the same mesh, global extents and type. Collective over the mesh. */
int shard_redistribute(shard_field to, shard_field from);
/** The transpose: adds the owned elements of `to` to those of `from`. Collective over the mesh. */
int shard_redistribute_adjoint(shard_field from, shard_field to);
/** Copies the owned elements of all ranks to an array of one rank, `root` in the mesh's
 * communicator, of the global extents and the field's type; other ranks' `data` isn't used.
 * `strides` in elements (NULL: the last dimension is contiguous). Collective over the mesh. */
int shard_gather(void* data, const int64_t* strides, shard_field field, int root);
/** The inverse. */
int shard_scatter(shard_field field, const void* data, const int64_t* strides, int root);

/** Moves fields between two meshes. */
typedef struct shard_coupling_s* shard_coupling;
/** Copies the owned elements of the fields `from` on one mesh to the fields `to` on another: other
 * ranks, some in common, or the same ones in another shape. One of each for a pair, of the same
 * extents and type; a rank that isn't on a side gives none for it. Index spaces are matched by their
 * ids. Collective over `comm`, which has the ranks of both. */
int shard_coupling_create(MPI_Comm comm, int to_count, const shard_field* to, int from_count,
                          const shard_field* from, shard_coupling* coupling);
/** The same with Fortran's communicator. */
int shard_coupling_create_f(MPI_Fint comm, int to_count, const shard_field* to, int from_count,
                            const shard_field* from, shard_coupling* coupling);
/** Another owner. Local. */
int shard_coupling_retain(shard_coupling coupling);
/** One owner less; *coupling becomes NULL. Local. */
int shard_coupling_release(shard_coupling* coupling);
/** Sends this rank's part of `from`, which may change afterwards. Doesn't wait for other ranks. */
int shard_coupling_put(shard_coupling coupling);
/** Waits for the messages of one put and writes `to`. A rank on both sides calls put first. */
int shard_coupling_get(shard_coupling coupling);
/** Waits until what put sent has left this rank: before the next put, unless get was called. */
int shard_coupling_finish(shard_coupling coupling);
/** All of it, on the ranks of both sides together. */
int shard_coupling_run(shard_coupling coupling);
/** The transpose: adds each element of `to` to that of `from` which it is a copy of. Collective over
 * the ranks of both sides. */
int shard_coupling_adjoint(shard_coupling coupling);

/** In files and for networks the field has its dimensions in the opposite order (`reversed` = 1),
 * which is that of Fortran's arrays: the last dimension of a file or network is the fastest. Local. */
int shard_field_reversed(shard_field field, int reversed);
/** Writes the owned elements of fields, under their names, and `numbers` values that are the same on
 * every rank (a step, a time) into one safetensors file, which any number of ranks can read. `path`
 * is always the old file or a complete one. Collective over the fields' mesh. */
int shard_checkpoint_save(const char* path, int count, const shard_field* fields, int numbers,
                          const double* values);
/** Reads them: the same names, types, extents and number of numbers. Nothing is changed if that
 * fails. Halos aren't filled. Collective. */
int shard_checkpoint_load(const char* path, int count, const shard_field* fields, int numbers,
                          double* values);

/** A NetCDF file that all ranks write. */
typedef struct shard_output_s* shard_output;
/** Begins a file, or with `extend` = 1 a copy of the one that is there, to which the same must be
 * declared. Dimensions and variables are declared first, then written; shard_output_close puts the
 * file at `path`. This and all that follows is collective over the mesh. */
int shard_output_create(shard_mesh mesh, const char* path, int extend, shard_output* output);
/** Another owner. Local. */
int shard_output_retain(shard_output output);
/** One owner less; *output becomes NULL. A file that wasn't closed is removed with the last. */
int shard_output_release(shard_output* output);
/** A dimension without values. */
int shard_output_dimension(shard_output output, const char* name, int64_t size);
/** A dimension and its values, which rise or fall. `units` NULL: none, but "lat" and "lon" have the
 * attributes of CF. */
int shard_output_coordinate(shard_output output, const char* name, int64_t count,
                            const double* values, const char* units);
/** The dimension "time", without an end: units such as "days since 2000-01-01"; `calendar` NULL:
 * "standard". */
int shard_output_time(shard_output output, const char* units, const char* calendar);
/** A variable of float, double or int32 over these dimensions, the slowest first. `long_name` and
 * `units` may be NULL. */
int shard_output_variable(shard_output output, const char* name, int type, int rank,
                          const char* const* dimensions, const char* long_name, const char* units);
/** Writes a field to a variable of its extents; `entry` of the first dimension, which the field
 * doesn't have (a time), or -1. */
int shard_output_write(shard_output output, const char* variable, int64_t entry,
                       shard_field field);
/** Writes an entry of a variable of one dimension, such as "time". */
int shard_output_write_number(shard_output output, const char* variable, int64_t entry,
                              double value);
/** Completes the file. */
int shard_output_close(shard_output output);

/** How sums are rounded. */
enum shard_order {
  shard_on_one_mesh, /**< fast: the same bits from run to run on one mesh */
  shard_ordered      /**< exact, rounded once: the same bits on every mesh and partition */
};

/** The sum of the owned elements of all ranks, of float, double or integers (those modulo 2^64 in
 * *integer, NULL for others; *value has it as a double). Elements that are copies of others (of a
 * north fold) count once. Collective over the mesh; the result is the same on every rank. */
int shard_sum(shard_field field, int order, double* value, int64_t* integer);
/** The sum of the products of two fields of the same partitions, of float or double. Collective. */
int shard_dot(shard_field a, shard_field b, int order, double* value);
/** The smallest or the largest value; NaN if there is one. Collective. Error without elements. */
int shard_min(shard_field field, double* value);
/** As shard_min. */
int shard_max(shard_field field, double* value);
/** The sum of the bit patterns of the owned elements modulo 2^64: the same on every mesh and
 * partition, another one if a bit differs. Collective. */
int shard_checksum(shard_field field, uint64_t* value);

/** From now on this library's work on fields in device memory goes to this cudaStream_t or
 * hipStream_t, in its order; NULL: the default one. Local. Error in a build without a device. */
int shard_set_stream(void* stream);
/** The method of a solver: conjugate gradients for a symmetric positive definite A, GMRES for others. */
enum shard_method { shard_cg, shard_gmres };
/** What a solver applies to the residual. */
enum shard_preconditioner {
  shard_identity, /**< nothing */
  shard_jacobi,   /**< 1 / A's diagonal */
  shard_multigrid /**< a v-cycle with Galerkin products, for CG and a positive diagonal. Takes the
                       number of iterations from growing with the extents; coarsens only dimensions
                       that are strongly coupled (flat cells). Its setup costs several solves */
};

/** Options of a solver, the same on every rank. All zeros is CG to 1e-8 of b's norm. */
typedef struct shard_solver_options {
  int method;         /**< a shard_method */
  int preconditioner; /**< a shard_preconditioner */
  double relative;    /**< tolerance relative to the norm of b; 1e-8 if both are 0 */
  double absolute;    /**< absolute tolerance */
  int iterations;     /**< limit; 0: 1000 */
  int restart;        /**< of GMRES: vectors before a restart; 0: 30 */
  int order;          /**< a shard_order; ordered: the same bits on every mesh */
  int singular;       /**< 1: A maps constants to 0 (no boundary fixes x) */
  int smoothing;      /**< of multigrid: Chebyshev steps before and after each coarser level; 0: 2 */
} shard_solver_options;

/** How a solve ended, the same on every rank. */
typedef struct shard_solve_result {
  int converged;   /**< 1: the residual is as small as asked for */
  int status;      /**< 0 converged, 1 limit of iterations, 2 stagnated, 3 breakdown, 4 inconsistent,
                        5 not finite */
  int iterations;  /**< of all restarts */
  double residual; /**< 2-norm of b - A x */
  double rhs;      /**< 2-norm of b */
} shard_solve_result;

/** Solves A x = b for a stencil whose coefficients are fields. */
typedef struct shard_solver_s* shard_solver;
/** (A x)(i) = the sum over the points p of coefficients[p](i) x(i + offsets[p]). `offsets` has the
 * dimensions of each point in a row, as far as x's halo, whose boundaries it reads outside the
 * domain. All fields are of double, have x's partitions, and up to 3 dimensions. The coefficients
 * may change between solves; the preconditioner is that of the ones at the creation, until an update.
 * Collective over the mesh. */
int shard_solver_create(shard_field x, int points, const int* offsets,
                        const shard_field* coefficients, const shard_solver_options* options,
                        shard_solver* solver);
/** Another owner. Local. */
int shard_solver_retain(shard_solver solver);
/** One owner less; *solver becomes NULL. Local. */
int shard_solver_release(shard_solver* solver);
/** The preconditioner of the coefficients as they are now. Collective. */
int shard_solver_update(shard_solver solver);
/** y = A x. Collective. */
int shard_solver_apply(shard_solver solver, shard_field y, shard_field x);
/** Solves for x, from the x that is given. 0 also if it didn't converge: see `result`. Collective. */
int shard_solver_solve(shard_solver solver, shard_field x, shard_field b,
                       shard_solve_result* result);

/** A network that a C++ file of the caller's has registered; see shard/c/network.hpp. */
typedef struct shard_network_s* shard_network;
/** Makes the network of this name on a mesh, with new parameters. Collective over the mesh. */
int shard_network_open(shard_mesh mesh, const char* name, shard_network* network);
/** Another owner. Local. */
int shard_network_retain(shard_network network);
/** One owner less; *network becomes NULL. The last release is collective over the mesh. */
int shard_network_release(shard_network* network);
/** Reads the parameters from a safetensors file, such as PyTorch writes; `prefix` of the names in
 * the file, NULL for none. Collective. */
int shard_network_load(shard_network network, const char* path, const char* prefix);
/** y = network(x), the fields of [batch, channel, space...]; those of fewer dimensions are of one
 * batch, or of one batch and channel. Any partitions, halos and strides: where the axes are the
 * network's, values stay on their ranks. Halos of x aren't read, those of y aren't written.
 * Collective over the mesh. */
int shard_network_apply(shard_network network, shard_field y, shard_field x);
/** From dy = dJ/dy at the x of the last apply: sets dx = dJ/dx, unless it is NULL, and adds dJ/dp to
 * the gradients of the parameters p. Collective. */
int shard_network_pullback(shard_network network, shard_field dx, shard_field dy);
/** 1 (the default): training, 0: evaluation, without dropout and with running averages. Local; on
 * every rank. */
int shard_network_set_training(shard_network network, int training);
/** All parameters, float or double (a shard_type), in the network's memory, and this rank's part of
 * their gradients. Local. Any pointer may be NULL. */
int shard_network_parameters(shard_network network, int* type, int64_t* count, void** values,
                             void** gradients);
/** The name of array `index` of the parameters, its first value and their number, or NULL beyond
 * the last. Valid as long as the network. Local. */
int shard_network_parameter(shard_network network, int64_t index, const char** name, int64_t* first,
                            int64_t* count);

/** A rule of training. */
enum shard_optimiser { shard_sgd, shard_adam, shard_adamw };
/** Options of an optimiser, PyTorch's names. A 0 of learning_rate (1e-3), beta1 (0.9), beta2 (0.999)
 * and eps (1e-8) is their default. The same on every rank. */
typedef struct shard_optimiser_options {
  int kind;             /**< a shard_optimiser */
  double learning_rate; /**< size of a step */
  double momentum;      /**< of SGD */
  double beta1;         /**< of Adam: decay of the mean */
  double beta2;         /**< and of the mean square */
  double eps;           /**< of Adam */
  double weight_decay;  /**< 0: none */
  double clip;          /**< more than 0: the gradients' largest norm */
} shard_optimiser_options;
/** Chooses the optimiser and forgets its state. Collective. */
int shard_network_set_optimiser(shard_network network, const shard_optimiser_options* options);
/** Sums the gradients over the ranks, changes the parameters, sets the gradients to 0.
 * `learning_rate`: from now on, or 0 for the present one. `norm`, unless NULL: that of the
 * gradients, before clipping. Collective. */
int shard_network_step(shard_network network, double learning_rate, double* norm);
/** Writes the parameters ("model.<name>") and the optimiser's state to a safetensors file.
 * Collective. */
int shard_network_save(shard_network network, const char* path);
/** Reads them, with the same optimiser chosen (its options aren't in the file), on any number of
 * ranks. Collective. */
int shard_network_restore(shard_network network, const char* path);

/** What a mesh, space, allocation, field, exchange, solver or network is, as text; "" for other handles. Valid
 * until this thread's next shard_describe. Local. */
int shard_describe(void* object, const char** text);

/** Waits for all work on the device. */
int shard_fence(void);

#ifdef __cplusplus
}
#endif

#endif
