! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
!> shard for Fortran 2018: halos, their adjoint, redistributions and sums of arrays that the model keeps.
!!
!! Dimensions and axes count from 1, in the order of the array's; so do global indices. A fold names its
!! longitude dimension by that number. Every procedure has `ierr` as its last, optional argument: 0 or an error
!! code, and shard_message() is the sentence. Without `ierr` an error calls the handler (set_error_handler), by
!! default one that prints the sentence and ends the job.
!!
!! Objects share what they hold: `b = a` is the same mesh, field or plan, which ends with the last of them. Compilers
!! differ in which copies they finalise (array constructors, function results), so an object keeps its address and only
!! the object at that address releases: a bitwise copy never does.
module shard
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real32, real64
  implicit none
  private

  public :: shard_initialize, shard_finalize, shard_message, shard_fence, shard_set_stream
  public :: shard_mesh, shard_space, shard_allocation, shard_field, shard_exchange, shard_coupling, shard_output
  public :: shard_solver, shard_network
  public :: shard_dim, shard_boundary
  public :: zero, constant, periodic, reflect, symmetric, clamp, given, pole_fold, north_fold
  public :: redistribute, redistribute_adjoint, gather, scatter
  public :: save_checkpoint, load_checkpoint
  public :: sum_of, dot_of, min_of, max_of, checksum_of
  public :: set_error_handler, shard_error_handler, shard_fill

  !> Where an array is.
  integer(c_int), parameter, public :: shard_host = 0, shard_device = 1, shard_asked = 2
  !> Types of a file's variables.
  integer(c_int), parameter, public :: in_float = 0, in_double = 1, in_int32 = 2
  !> Methods and preconditioners of solvers.
  integer(c_int), parameter, public :: cg = 0, gmres = 1, no_preconditioner = 0, jacobi = 1, multigrid = 2
  !> Optimisers of networks.
  integer(c_int), parameter, public :: sgd = 0, adam = 1, adamw = 2
  !> How sums are rounded: fast, or exact with the same bits on every mesh.
  integer(c_int), parameter, public :: on_one_mesh = 0, ordered = 1
  !> Poles of a pole fold: on the first and last row, or half a row outside.
  integer(c_int), parameter, public :: on_row = 0, between_rows = 1
  !> The point about which a north fold turns.
  integer(c_int), parameter, public :: t_point = 0, u_point = 1, f_point = 2
  !> Where a field's points are in their cells.
  integer(c_int), parameter, public :: at_centre = 0, at_east = 1, at_north = 2, at_north_east = 3, at_west = 4, &
    at_south = 5, at_south_west = 6

  !> A boundary of one side of a dimension; see the functions that make it.
  type, bind(c) :: shard_boundary
    integer(c_int) :: kind = 0, odd = 0, dimension = 0, pole = 0, pivot = 0, position = 0
    real(c_double) :: value = 0
    integer(c_int) :: count = 0
    type(c_ptr) :: each = c_null_ptr
  end type

  type, bind(c) :: c_dimension
    integer(c_int64_t) :: extent = 0
    integer(c_int) :: axis = -1
    type(c_ptr) :: space = c_null_ptr, begins = c_null_ptr
    integer(c_int) :: halo_low = 0, halo_high = 0
    type(shard_boundary) :: low, high
  end type

  !> What all objects are: a counted handle of the C interface. Assignment shares what it refers to.
  type :: shard_object
    private
    type(c_ptr) :: handle = c_null_ptr, owner = c_null_ptr
  contains
    procedure :: release => object_release    !< gives up the share; the last one ends what is shared
    procedure :: describe => object_describe  !< what it is, as text
    procedure, private :: object_share
    generic :: assignment(=) => object_share
    final :: object_final
  end type

  !> A mesh of ranks.
  type, extends(shard_object) :: shard_mesh
  contains
    procedure :: create => mesh_create        !< mesh%create(comm, [0, 0])
    procedure :: axis => mesh_axis            !< size and coordinate (from 0) along an axis
    procedure :: owned => mesh_owned          !< first and count of a balanced dimension
    final :: mesh_final
  end type

  !> Elements with global ids over an axis.
  type, extends(shard_object) :: shard_space
  contains
    procedure :: create => space_create       !< space%create(mesh, axis, ids, owned, layers)
    final :: space_final
  end type

  !> Memory for an array, set to zero, which neighbours on the node read in place: an exchange copies long contiguous
  !! runs once, of other memory twice. It must outlive the fields and exchanges of the array.
  type, extends(shard_object) :: shard_allocation
  contains
    procedure :: create => allocation_create  !< allocation%create(mesh, bytes); collective, sizes may differ
    procedure :: address => allocation_address  !< for c_f_pointer(allocation%address(), array, extents)
    final :: allocation_final
  end type

  !> An array of the model's with its halo.
  type, extends(shard_object) :: shard_field
  contains
    procedure :: wrap => field_wrap           !< t%wrap(mesh, temperature, [shard_dim(...), shard_dim(...)])
    procedure :: rebind => field_rebind       !< another array of the same extents and strides
    procedure :: owned => field_owned         !< first (from 1) and count of a dimension
    final :: field_final
  end type

  !> A plan that fills the halos of fields.
  type, extends(shard_object) :: shard_exchange
  contains
    procedure :: plan => exchange_plan        !< halos%plan([t, s])
    procedure :: add => exchange_add          !< halos%add(q): one field more, known by its name
    procedure :: remove => exchange_remove    !< halos%remove('q')
    procedure :: set_boundary => exchange_set_boundary  !< halos%set_boundary(fill): see shard_fill
    procedure :: run => exchange_run
    procedure :: adjoint => exchange_adjoint
    procedure :: start => exchange_start
    procedure :: start_adjoint => exchange_start_adjoint
    procedure :: finish => exchange_finish
    procedure :: advance => exchange_advance !< between start and finish, in the middle of long work
    final :: exchange_final
  end type

  !> Moves fields between two meshes.
  type, extends(shard_object) :: shard_coupling
  contains
    procedure :: create => coupling_create    !< c%create(comm, to=[sst_here], from=[sst_there])
    procedure :: put => coupling_put          !< sends `from`; doesn't wait
    procedure :: get => coupling_get          !< waits for a put and writes `to`
    procedure :: finish => coupling_finish    !< before the next put of a rank that doesn't get
    procedure :: run => coupling_run          !< all of it, on both sides together
    procedure :: adjoint => coupling_adjoint
    final :: coupling_final
  end type

  !> A NetCDF file that all ranks write: declare, write, close. All is collective over the mesh.
  type, extends(shard_object) :: shard_output
  contains
    procedure :: create => output_create      !< out%create(mesh, 'run.nc')
    procedure :: dimension => output_dimension
    procedure :: coordinate => output_coordinate  !< out%coordinate('lon', longitudes)
    procedure :: time => output_time          !< out%time('days since 2000-01-01')
    procedure :: variable => output_variable  !< out%variable('t', ['lon ', 'lat ', 'time'], units='K')
    procedure, private :: output_write_field, output_write_number
    generic :: write => output_write_field, output_write_number  !< out%write('t', t, entry)
    procedure :: close => output_close
    final :: output_final
  end type

  !> Solves A x = b for a stencil whose coefficients are fields.
  type, extends(shard_object) :: shard_solver
  contains
    procedure :: create => solver_create      !< solver%create(x, offsets, [c, e, w, n, s], method=cg)
    procedure :: update => solver_update      !< the preconditioner, after the coefficients have changed
    procedure :: apply => solver_apply        !< y = A x
    procedure :: solve => solver_solve        !< solver%solve(x, b, converged)
    final :: solver_final
  end type

  !> A network that a C++ file of the model's has registered (shard/c/network.hpp). Its dimensions are those of the array
  !! in the opposite order: x(lon, lat, channel) is [channel, lat, lon].
  type, extends(shard_object) :: shard_network
  contains
    procedure :: open => network_open         !< network%open(mesh, 'corrector')
    procedure :: load => network_load         !< parameters from a safetensors file
    procedure :: apply => network_apply       !< y = network(x)
    procedure :: pullback => network_pullback !< network%pullback(dy, dx)
    procedure :: set_training => network_set_training
    procedure :: set_optimiser => network_set_optimiser  !< network%set_optimiser(adamw, learning_rate=1e-3_real64)
    procedure :: step => network_step         !< sums the gradients and changes the parameters
    procedure :: save => network_save         !< parameters and the optimiser's state
    procedure :: restore => network_restore
    procedure, private :: network_parameters_32, network_parameters_64
    generic :: parameters => network_parameters_32, network_parameters_64  !< pointers to values and gradients
    final :: network_final
  end type

  type, bind(c) :: c_solver_options
    integer(c_int) :: method = 0, preconditioner = 0
    real(c_double) :: relative = 0, absolute = 0
    integer(c_int) :: iterations = 0, restart = 0, order = 0, singular = 0, smoothing = 0
  end type
  type, bind(c) :: c_optimiser_options
    integer(c_int) :: kind = 0
    real(c_double) :: learning_rate = 0, momentum = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0, clip = 0
  end type
  type, bind(c) :: c_solve_result
    integer(c_int) :: converged = 0, status = 0, iterations = 0
    real(c_double) :: residual = 0, rhs = 0
  end type

  !> A dimension of a field: shard_dim(1440, axis=1, halo=2, boundary=periodic()); see make_dim.
  type :: shard_dim
    private
    type(c_dimension) :: c
    integer(c_int64_t), allocatable :: begins(:)
    logical :: blocked = .false.
  end type

  interface shard_dim
    procedure make_dim
  end interface

  type, bind(c) :: c_options
    integer(c_int) :: faces = 0, width = 0, layers = 0, axes = 0, messages = 0
  end type

  abstract interface
    !> Called with an error's code and sentence where `ierr` is absent.
    subroutine shard_error_handler(code, message)
      integer, intent(in) :: code
      character(*), intent(in) :: message
    end subroutine
  end interface
  abstract interface
    !> A boundary of the model's own: fills the elements of the field of this name that are outside the domain on one
    !! side of a dimension whose boundary is given(): first(d) <= i(d) <= last(d), where 1 is the first element that
    !! this rank owns. Called after the halos are filled. In the adjoint, called before: adds what their cotangents give
    !! to the elements that it read, and zeroes them.
    subroutine shard_fill(name, adjoint, dimension, high, first, last)
      character(*), intent(in) :: name
      logical, intent(in) :: adjoint, high
      integer, intent(in) :: dimension, first(:), last(:)
    end subroutine
  end interface
  procedure(shard_error_handler), pointer, save :: handler => null()

  !> Functions of C that take the same.
  abstract interface
    function of_object(object) bind(c) result(code)
      import c_int, c_ptr
      type(c_ptr), value :: object
      integer(c_int) :: code
    end function
    function of_two(one, other) bind(c) result(code)
      import c_int, c_ptr
      type(c_ptr), value :: one, other
      integer(c_int) :: code
    end function
    function of_three(object, one, other) bind(c) result(code)
      import c_int, c_ptr
      type(c_ptr), value :: object, one, other
      integer(c_int) :: code
    end function
    function of_text(object, text) bind(c) result(code)
      import c_int, c_ptr, c_char
      type(c_ptr), value :: object
      character(kind=c_char), intent(in) :: text(*)
      integer(c_int) :: code
    end function
    function of_texts(object, text, other) bind(c) result(code)
      import c_int, c_ptr, c_char
      type(c_ptr), value :: object
      character(kind=c_char), intent(in) :: text(*), other(*)
      integer(c_int) :: code
    end function
    function of_flag(object, flag) bind(c) result(code)
      import c_int, c_ptr
      type(c_ptr), value :: object
      integer(c_int), value :: flag
      integer(c_int) :: code
    end function
    function of_value(object, value) bind(c) result(code)
      import c_int, c_double, c_ptr
      type(c_ptr), value :: object
      real(c_double), intent(out) :: value
      integer(c_int) :: code
    end function
    function of_nothing() bind(c) result(code)
      import c_int
      integer(c_int) :: code
    end function
  end interface
  procedure(of_object), bind(c, name='shard_set_stream') :: c_set_stream
  procedure(of_object), bind(c, name='shard_object_retain') :: c_object_retain
  procedure(of_object), bind(c, name='shard_exchange_run') :: c_exchange_run
  procedure(of_object), bind(c, name='shard_exchange_adjoint') :: c_exchange_adjoint
  procedure(of_object), bind(c, name='shard_exchange_start') :: c_exchange_start
  procedure(of_object), bind(c, name='shard_exchange_start_adjoint') :: c_exchange_start_adjoint
  procedure(of_object), bind(c, name='shard_exchange_finish') :: c_exchange_finish
  procedure(of_object), bind(c, name='shard_exchange_advance') :: c_exchange_advance
  procedure(of_object), bind(c, name='shard_coupling_put') :: c_coupling_put
  procedure(of_object), bind(c, name='shard_coupling_get') :: c_coupling_get
  procedure(of_object), bind(c, name='shard_coupling_finish') :: c_coupling_finish
  procedure(of_object), bind(c, name='shard_coupling_run') :: c_coupling_run
  procedure(of_object), bind(c, name='shard_coupling_adjoint') :: c_coupling_adjoint
  procedure(of_object), bind(c, name='shard_output_close') :: c_output_close
  procedure(of_object), bind(c, name='shard_solver_update') :: c_solver_update
  procedure(of_two), bind(c, name='shard_exchange_add') :: c_exchange_add
  procedure(of_two), bind(c, name='shard_redistribute') :: c_redistribute
  procedure(of_two), bind(c, name='shard_redistribute_adjoint') :: c_redistribute_adjoint
  procedure(of_three), bind(c, name='shard_solver_apply') :: c_solver_apply
  procedure(of_three), bind(c, name='shard_network_apply') :: c_network_apply
  procedure(of_three), bind(c, name='shard_network_pullback') :: c_network_pullback
  procedure(of_text), bind(c, name='shard_exchange_remove') :: c_exchange_remove
  procedure(of_text), bind(c, name='shard_network_save') :: c_network_save
  procedure(of_text), bind(c, name='shard_network_restore') :: c_network_restore
  procedure(of_texts), bind(c, name='shard_output_time') :: c_output_time
  procedure(of_texts), bind(c, name='shard_network_load') :: c_network_load
  procedure(of_flag), bind(c, name='shard_field_reversed') :: c_reversed
  procedure(of_flag), bind(c, name='shard_network_set_training') :: c_network_set_training
  procedure(of_value), bind(c, name='shard_min') :: c_min
  procedure(of_value), bind(c, name='shard_max') :: c_max
  procedure(of_nothing), bind(c, name='shard_finalize') :: c_finalize
  procedure(of_nothing), bind(c, name='shard_fence') :: c_fence

  interface
    function c_comm(comm, value) bind(c, name='shard_fortran_comm') result(code)
      import c_int
      type(*), dimension(..), intent(in) :: comm
      integer(c_int), intent(out) :: value
      integer(c_int) :: code
    end function
    function c_initialize(comm) bind(c, name='shard_initialize_f') result(code)
      import c_int
      integer(c_int), value :: comm
      integer(c_int) :: code
    end function
    function c_message() bind(c, name='shard_error_message') result(text)
      import c_ptr
      type(c_ptr) :: text
    end function
    function c_strlen(text) bind(c, name='strlen') result(length)
      import c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
    function c_object_release(handle) bind(c, name='shard_object_release') result(code)
      import c_int, c_ptr
      type(c_ptr), intent(inout) :: handle
      integer(c_int) :: code
    end function
    function c_mesh_create(comm, axes, sizes, mesh) bind(c, name='shard_mesh_create_f') result(code)
      import c_int, c_ptr
      integer(c_int), value :: comm, axes
      integer(c_int), intent(in) :: sizes(*)
      type(c_ptr), intent(inout) :: mesh
      integer(c_int) :: code
    end function
    function c_mesh_axis(mesh, axis, size, coordinate) bind(c, name='shard_mesh_axis') result(code)
      import c_int, c_ptr
      type(c_ptr), value :: mesh
      integer(c_int), value :: axis
      integer(c_int), intent(out) :: size, coordinate
      integer(c_int) :: code
    end function
    function c_mesh_owned(mesh, axis, n, first, count) bind(c, name='shard_mesh_owned') result(code)
      import c_int, c_int64_t, c_ptr
      type(c_ptr), value :: mesh
      integer(c_int), value :: axis
      integer(c_int64_t), value :: n
      integer(c_int64_t), intent(out) :: first, count
      integer(c_int) :: code
    end function
    function c_space_create(mesh, axis, places, ids, owned, layers, space) bind(c, name='shard_space_create') &
        result(code)
      import c_int, c_int64_t, c_ptr
      type(c_ptr), value :: mesh, layers
      integer(c_int), value :: axis
      integer(c_int64_t), value :: places, owned
      integer(c_int64_t), intent(in) :: ids(*)
      type(c_ptr), intent(inout) :: space
      integer(c_int) :: code
    end function
    function c_allocate(mesh, bytes, allocation, data) bind(c, name='shard_allocate') result(code)
      import c_int, c_int64_t, c_ptr
      type(c_ptr), value :: mesh
      integer(c_int64_t), value :: bytes
      type(c_ptr), intent(inout) :: allocation, data
      integer(c_int) :: code
    end function
    function c_allocation_address(allocation, data) bind(c, name='shard_allocation_address') result(code)
      import c_int, c_ptr
      type(c_ptr), value :: allocation
      type(c_ptr), intent(inout) :: data
      integer(c_int) :: code
    end function
    function c_wrap(mesh, name, array, memory, rank, dims, blocked, field) bind(c, name='shard_fortran_wrap') result(code)
      import c_int, c_ptr, c_char, c_dimension
      type(c_ptr), value :: mesh
      character(kind=c_char), intent(in) :: name(*)
      type(*), dimension(..), intent(in) :: array
      integer(c_int), value :: memory, rank, blocked
      type(c_dimension), intent(in) :: dims(*)
      type(c_ptr), intent(inout) :: field
      integer(c_int) :: code
    end function
    function c_rebind(field, array) bind(c, name='shard_fortran_rebind') result(code)
      import c_int, c_ptr
      type(c_ptr), value :: field
      type(*), dimension(..), intent(in) :: array
      integer(c_int) :: code
    end function
    function c_field_owned(field, dimension, first, count) bind(c, name='shard_field_owned') result(code)
      import c_int, c_int64_t, c_ptr
      type(c_ptr), value :: field
      integer(c_int), value :: dimension
      integer(c_int64_t), intent(out) :: first, count
      integer(c_int) :: code
    end function
    function c_exchange_create(count, fields, options, exchange) bind(c, name='shard_exchange_create') result(code)
      import c_int, c_ptr, c_options
      integer(c_int), value :: count
      type(c_ptr), intent(in) :: fields(*)
      type(c_options), intent(in) :: options
      type(c_ptr), intent(inout) :: exchange
      integer(c_int) :: code
    end function
    function c_exchange_set_boundary(exchange, fill, context) bind(c, name='shard_exchange_set_boundary') result(code)
      import c_int, c_ptr, c_funptr
      type(c_ptr), value :: exchange, context
      type(c_funptr), value :: fill
      integer(c_int) :: code
    end function
    function c_coupling_create(comm, to_count, to, from_count, from, coupling) bind(c, name='shard_coupling_create_f') &
        result(code)
      import c_int, c_ptr
      integer(c_int), value :: comm, to_count, from_count
      type(c_ptr), intent(in) :: to(*), from(*)
      type(c_ptr), intent(inout) :: coupling
      integer(c_int) :: code
    end function
    function c_save(path, count, fields, numbers, values) bind(c, name='shard_checkpoint_save') result(code)
      import c_int, c_ptr, c_char, c_double
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: count, numbers
      type(c_ptr), intent(in) :: fields(*)
      real(c_double), intent(in) :: values(*)
      integer(c_int) :: code
    end function
    function c_load(path, count, fields, numbers, values) bind(c, name='shard_checkpoint_load') result(code)
      import c_int, c_ptr, c_char, c_double
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: count, numbers
      type(c_ptr), intent(in) :: fields(*)
      real(c_double), intent(inout) :: values(*)
      integer(c_int) :: code
    end function
    function c_output_create(mesh, path, extend, output) bind(c, name='shard_output_create') result(code)
      import c_int, c_ptr, c_char
      type(c_ptr), value :: mesh
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: extend
      type(c_ptr), intent(inout) :: output
      integer(c_int) :: code
    end function
    function c_output_dimension(output, name, size) bind(c, name='shard_output_dimension') result(code)
      import c_int, c_ptr, c_char, c_int64_t
      type(c_ptr), value :: output
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: size
      integer(c_int) :: code
    end function
    function c_output_coordinate(output, name, count, values, units) bind(c, name='shard_output_coordinate') &
        result(code)
      import c_int, c_ptr, c_char, c_int64_t, c_double
      type(c_ptr), value :: output, units
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: count
      real(c_double), intent(in) :: values(*)
      integer(c_int) :: code
    end function
    function c_output_variable(output, name, type, rank, dimensions, long_name, units) &
        bind(c, name='shard_output_variable') result(code)
      import c_int, c_ptr, c_char
      type(c_ptr), value :: output, long_name, units
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: type, rank
      type(c_ptr), intent(in) :: dimensions(*)
      integer(c_int) :: code
    end function
    function c_output_write(output, variable, entry, field) bind(c, name='shard_output_write') result(code)
      import c_int, c_ptr, c_char, c_int64_t
      type(c_ptr), value :: output, field
      character(kind=c_char), intent(in) :: variable(*)
      integer(c_int64_t), value :: entry
      integer(c_int) :: code
    end function
    function c_output_number(output, variable, entry, value) bind(c, name='shard_output_write_number') result(code)
      import c_int, c_ptr, c_char, c_int64_t, c_double
      type(c_ptr), value :: output
      character(kind=c_char), intent(in) :: variable(*)
      integer(c_int64_t), value :: entry
      real(c_double), value :: value
      integer(c_int) :: code
    end function
    function c_solver_create(x, points, offsets, coefficients, options, solver) bind(c, name='shard_solver_create') &
        result(code)
      import c_int, c_ptr, c_solver_options
      type(c_ptr), value :: x
      integer(c_int), value :: points
      integer(c_int), intent(in) :: offsets(*)
      type(c_ptr), intent(in) :: coefficients(*)
      type(c_solver_options), intent(in) :: options
      type(c_ptr), intent(inout) :: solver
      integer(c_int) :: code
    end function
    function c_solver_solve(solver, x, b, result) bind(c, name='shard_solver_solve') result(code)
      import c_int, c_ptr, c_solve_result
      type(c_ptr), value :: solver, x, b
      type(c_solve_result), intent(inout) :: result
      integer(c_int) :: code
    end function
    function c_gather(array, field, root) bind(c, name='shard_fortran_gather') result(code)
      import c_int, c_ptr
      type(*), dimension(..), intent(in) :: array
      type(c_ptr), value :: field
      integer(c_int), value :: root
      integer(c_int) :: code
    end function
    function c_scatter(field, array, root) bind(c, name='shard_fortran_scatter') result(code)
      import c_int, c_ptr
      type(c_ptr), value :: field
      type(*), dimension(..), intent(in) :: array
      integer(c_int), value :: root
      integer(c_int) :: code
    end function
    function c_describe(object, text) bind(c, name='shard_describe') result(code)
      import c_int, c_ptr
      type(c_ptr), value :: object
      type(c_ptr), intent(out) :: text
      integer(c_int) :: code
    end function
    function c_network_open(mesh, name, network) bind(c, name='shard_network_open') result(code)
      import c_int, c_ptr, c_char
      type(c_ptr), value :: mesh
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(inout) :: network
      integer(c_int) :: code
    end function
    function c_network_parameters(network, type, count, values, gradients) bind(c, name='shard_network_parameters') &
        result(code)
      import c_int, c_int64_t, c_ptr
      type(c_ptr), value :: network
      integer(c_int), intent(out) :: type
      integer(c_int64_t), intent(out) :: count
      type(c_ptr), intent(out) :: values, gradients
      integer(c_int) :: code
    end function
    function c_network_set_optimiser(network, options) bind(c, name='shard_network_set_optimiser') result(code)
      import c_int, c_ptr, c_optimiser_options
      type(c_ptr), value :: network
      type(c_optimiser_options), intent(in) :: options
      integer(c_int) :: code
    end function
    function c_network_step(network, learning_rate, norm) bind(c, name='shard_network_step') result(code)
      import c_int, c_double, c_ptr
      type(c_ptr), value :: network
      real(c_double), value :: learning_rate
      real(c_double), intent(out) :: norm
      integer(c_int) :: code
    end function
    function c_sum(field, order, value, integer) bind(c, name='shard_sum') result(code)
      import c_int, c_double, c_ptr
      type(c_ptr), value :: field, integer
      integer(c_int), value :: order
      real(c_double), intent(out) :: value
      integer(c_int) :: code
    end function
    function c_dot(a, b, order, value) bind(c, name='shard_dot') result(code)
      import c_int, c_double, c_ptr
      type(c_ptr), value :: a, b
      integer(c_int), value :: order
      real(c_double), intent(out) :: value
      integer(c_int) :: code
    end function
    function c_checksum(field, value) bind(c, name='shard_checksum') result(code)
      import c_int, c_int64_t, c_ptr
      type(c_ptr), value :: field
      integer(c_int64_t), intent(out) :: value
      integer(c_int) :: code
    end function
  end interface

contains

  !> Sets what is called for an error where `ierr` is absent; null() for the default.
  subroutine set_error_handler(to)
    procedure(shard_error_handler), pointer, intent(in) :: to
    handler => to
  end subroutine

  !> The sentence of the last error.
  function shard_message() result(message)
    character(:), allocatable :: message
    message = text_of(c_message())
  end function
  function text_of(from) result(message)
    type(c_ptr), intent(in) :: from
    character(:), allocatable :: message
    character(kind=c_char), pointer :: text(:)
    integer :: i, length
    length = int(c_strlen(from))
    call c_f_pointer(from, text, [length])
    allocate (character(length) :: message)
    do i = 1, length
      message(i:i) = text(i)
    end do
  end function

  !> Whether a handle is where it was kept: not in a bitwise copy.
  logical function is_at(handle, owner)
    type(c_ptr), intent(in), target :: handle
    type(c_ptr), intent(in) :: owner
    is_at = c_associated(handle) .and. c_associated(owner, c_loc(handle))
  end function
  subroutine keep(handle, owner, made)
    type(c_ptr), intent(inout), target :: handle
    type(c_ptr), intent(inout) :: owner
    type(c_ptr), intent(in) :: made
    handle = made
    owner = c_loc(handle)
  end subroutine

  !> The end of a procedure that makes an object: it refers to what was made, unless that failed.
  subroutine adopt(object, made, code, ierr)
    class(shard_object), intent(inout) :: object
    type(c_ptr), intent(in) :: made
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: ierr
    if (code == 0) then
      call object%release()
      call keep(object%handle, object%owner, made)
    end if
    call answer(code, ierr)
  end subroutine

  subroutine object_release(object, ierr)
    class(shard_object), intent(inout) :: object
    integer, intent(out), optional :: ierr
    integer(c_int) :: code
    code = 0
    if (is_at(object%handle, object%owner)) code = c_object_release(object%handle)
    object%handle = c_null_ptr
    call answer(code, ierr)
  end subroutine
  !> Objects of other types are refused: no share is taken, and `to` is empty.
  impure elemental subroutine object_share(to, from)
    class(shard_object), intent(inout) :: to
    class(shard_object), intent(in) :: from
    integer(c_int) :: code
    type(c_ptr) :: held
    held = from%handle
    if (.not. same_type_as(to, from)) held = c_null_ptr
    if (c_associated(held)) code = c_object_retain(held)
    call to%release()
    call keep(to%handle, to%owner, held)
  end subroutine
  !> What it is, as text; '' for objects without one.
  function object_describe(object) result(text)
    class(shard_object), intent(in) :: object
    character(:), allocatable :: text
    type(c_ptr) :: from
    text = ''
    if (c_associated(object%handle)) then
      if (c_describe(object%handle, from) == 0) text = text_of(from)
    end if
  end function
  impure elemental subroutine object_final(object)
    type(shard_object), intent(inout) :: object
    integer :: ierr
    call object%release(ierr)
  end subroutine

  !> gfortran hands the base's finaliser a copy of an array that is a component of another type; a type's own gets the
  !! array itself.
  impure elemental subroutine space_final(space)
    type(shard_space), intent(inout) :: space
    call object_final(space%shard_object)
  end subroutine
  impure elemental subroutine field_final(field)
    type(shard_field), intent(inout) :: field
    call object_final(field%shard_object)
  end subroutine
  impure elemental subroutine exchange_final(exchange)
    type(shard_exchange), intent(inout) :: exchange
    call object_final(exchange%shard_object)
  end subroutine
  impure elemental subroutine allocation_final(allocation)
    type(shard_allocation), intent(inout) :: allocation
    call object_final(allocation%shard_object)
  end subroutine
  impure elemental subroutine mesh_final(mesh)
    type(shard_mesh), intent(inout) :: mesh
    call object_final(mesh%shard_object)
  end subroutine
  impure elemental subroutine coupling_final(coupling)
    type(shard_coupling), intent(inout) :: coupling
    call object_final(coupling%shard_object)
  end subroutine
  impure elemental subroutine output_final(output)
    type(shard_output), intent(inout) :: output
    call object_final(output%shard_object)
  end subroutine
  impure elemental subroutine solver_final(solver)
    type(shard_solver), intent(inout) :: solver
    call object_final(solver%shard_object)
  end subroutine
  impure elemental subroutine network_final(network)
    type(shard_network), intent(inout) :: network
    call object_final(network%shard_object)
  end subroutine

  subroutine answer(code, ierr)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: ierr
    if (present(ierr)) then
      ierr = int(code)
    else if (code /= 0) then
      if (associated(handler)) then
        call handler(int(code), shard_message())
      else
        write (error_unit, '(a)') shard_message()
        error stop 1
      end if
    end if
  end subroutine

  !> Starts Kokkos unless it is running. Collective over the communicator: an integer of mpi, or mpi_f08's
  !! type(MPI_Comm).
  subroutine shard_initialize(comm, ierr)
    type(*), dimension(..), intent(in) :: comm
    integer, intent(out), optional :: ierr
    integer(c_int) :: code, of_mpi
    code = c_comm(comm, of_mpi)
    if (code == 0) code = c_initialize(of_mpi)
    call answer(code, ierr)
  end subroutine

  !> Ends what shard_initialize started.
  subroutine shard_finalize(ierr)
    integer, intent(out), optional :: ierr
    call answer(c_finalize(), ierr)
  end subroutine

  !> Waits for all work on the device.
  subroutine shard_fence(ierr)
    integer, intent(out), optional :: ierr
    call answer(c_fence(), ierr)
  end subroutine

  !> Work on device arrays goes to this stream of CUDA or HIP, such as that of OpenACC's acc_get_cuda_stream.
  subroutine shard_set_stream(stream, ierr)
    type(c_ptr), intent(in) :: stream
    integer, intent(out), optional :: ierr
    call answer(c_set_stream(stream), ierr)
  end subroutine

  !> Zeros outside the domain.
  pure function zero() result(b)
    type(shard_boundary) :: b
    b = simple(0)
  end function
  !> This value outside the domain.
  pure function constant(value) result(b)
    real(real64), intent(in) :: value
    type(shard_boundary) :: b
    b = simple(0)
    b%value = value
  end function
  pure function periodic() result(b)
    type(shard_boundary) :: b
    b = simple(1)
  end function
  !> Mirrored about the edge element, which isn't repeated; odd: with the sign changed.
  pure function reflect(odd) result(b)
    logical, intent(in), optional :: odd
    type(shard_boundary) :: b
    b = simple(2, odd)
  end function
  !> Mirrored about the edge, so the edge element is repeated; odd: with the sign changed.
  pure function symmetric(odd) result(b)
    logical, intent(in), optional :: odd
    type(shard_boundary) :: b
    b = simple(3, odd)
  end function
  pure function clamp() result(b)
    type(shard_boundary) :: b
    b = simple(4)
  end function
  !> Across the pole, half the globe away in dimension `longitude`.
  pure function pole_fold(longitude, pole, odd) result(b)
    integer, intent(in) :: longitude
    integer(c_int), intent(in) :: pole
    logical, intent(in), optional :: odd
    type(shard_boundary) :: b
    b = simple(5, odd)
    b%dimension = int(longitude - 1, c_int)
    b%pole = pole
  end function
  !> The northern edge of a tripolar grid, on the high side.
  pure function north_fold(longitude, pivot, position, odd) result(b)
    integer, intent(in) :: longitude
    integer(c_int), intent(in) :: pivot
    integer(c_int), intent(in), optional :: position
    logical, intent(in), optional :: odd
    type(shard_boundary) :: b
    b = simple(6, odd)
    b%dimension = int(longitude - 1, c_int)
    b%pivot = pivot
    if (present(position)) b%position = position
  end function
  !> The caller's: an exchange leaves these elements.
  pure function given() result(b)
    type(shard_boundary) :: b
    b = simple(7)
  end function
  pure function simple(kind, odd) result(b)
    integer, intent(in) :: kind
    logical, intent(in), optional :: odd
    type(shard_boundary) :: b
    b%kind = int(kind, c_int)
    if (present(odd)) b%odd = merge(1_c_int, 0_c_int, odd)
  end function

  !> A dimension of a field: shard_dim(1440, axis=1, halo=2, boundary=periodic()). `extent`: of all ranks. `first`: the
  !! global index, from 1, of the first element of each rank along the axis (the model's decomposition; absent:
  !! balanced). `low`, `high` in place of `halo`, and `at_low`, `at_high` in place of `boundary`, where the sides
  !! differ. `space`: elements of an index space in place of an extent; it must live until the field is wrapped.
  !! `blocked`: the array is in blocks (nproma, ..., block): this dimension has nproma lanes, and its blocks are the
  !! array's last dimension, the last of which may be short.
  function make_dim(extent, axis, halo, low, high, boundary, at_low, at_high, first, space, blocked) result(d)
    integer, intent(in), optional :: extent, axis, halo, low, high, first(:)
    type(shard_boundary), intent(in), optional :: boundary, at_low, at_high
    type(shard_space), intent(in), optional :: space
    logical, intent(in), optional :: blocked
    type(shard_dim) :: d
    if (present(extent)) d%c%extent = int(extent, c_int64_t)
    if (present(axis)) d%c%axis = int(axis - 1, c_int)
    if (present(halo)) then
      d%c%halo_low = int(halo, c_int)
      d%c%halo_high = int(halo, c_int)
    end if
    if (present(low)) d%c%halo_low = int(low, c_int)
    if (present(high)) d%c%halo_high = int(high, c_int)
    if (present(boundary)) then
      d%c%low = boundary
      d%c%high = boundary
    end if
    if (present(at_low)) d%c%low = at_low
    if (present(at_high)) d%c%high = at_high
    if (present(first)) d%begins = [int(first, c_int64_t) - 1, d%c%extent]
    if (present(space)) d%c%space = space%handle
    if (present(blocked)) d%blocked = blocked
  end function

  !> A mesh with this many ranks along each axis, 0 for those to be chosen. Collective.
  subroutine mesh_create(mesh, comm, sizes, ierr)
    class(shard_mesh), intent(inout) :: mesh
    type(*), dimension(..), intent(in) :: comm
    integer, intent(in) :: sizes(:)
    integer, intent(out), optional :: ierr
    type(c_ptr) :: made
    integer(c_int) :: code, of_mpi
    made = c_null_ptr
    code = c_comm(comm, of_mpi)
    if (code == 0) code = c_mesh_create(of_mpi, int(size(sizes), c_int), int(sizes, c_int), made)
    call adopt(mesh, made, code, ierr)
  end subroutine
  subroutine mesh_axis(mesh, axis, size, coordinate, ierr)
    class(shard_mesh), intent(in) :: mesh
    integer, intent(in) :: axis
    integer, intent(out) :: size, coordinate
    integer, intent(out), optional :: ierr
    integer(c_int) :: s, c, code
    s = 0
    c = 0
    code = c_mesh_axis(mesh%handle, int(axis - 1, c_int), s, c)
    size = int(s)
    coordinate = int(c)
    call answer(code, ierr)
  end subroutine
  subroutine mesh_owned(mesh, axis, n, first, count, ierr)
    class(shard_mesh), intent(in) :: mesh
    integer, intent(in) :: axis, n
    integer, intent(out) :: first, count
    integer, intent(out), optional :: ierr
    integer(c_int64_t) :: f, c
    integer(c_int) :: code
    f = 0
    c = 0
    code = c_mesh_owned(mesh%handle, int(axis - 1, c_int), int(n, c_int64_t), f, c)
    first = int(f) + 1
    count = int(c)
    call answer(code, ierr)
  end subroutine

  !> `ids`: any numbers of this rank's places, the first `owned` its own. `layers`: of the others. Collective.
  subroutine space_create(space, mesh, axis, ids, owned, layers, ierr)
    class(shard_space), intent(inout) :: space
    type(shard_mesh), intent(in) :: mesh
    integer, intent(in) :: axis, owned
    integer(int64), intent(in) :: ids(:)
    integer(c_int), intent(in), contiguous, target, optional :: layers(:)
    integer, intent(out), optional :: ierr
    type(c_ptr) :: made, of
    integer(c_int) :: code
    made = c_null_ptr
    of = c_null_ptr
    if (present(layers)) then
      if (size(layers) > 0) of = c_loc(layers)
    end if
    code = c_space_create(mesh%handle, int(axis - 1, c_int), int(size(ids), c_int64_t), int(ids, c_int64_t), &
                          int(owned, c_int64_t), of, made)
    call adopt(space, made, code, ierr)
  end subroutine

  !> The field is this array, with its halo, which the caller keeps (a target, or one that isn't moved). `dims`: one
  !! for each dimension of the array, but the last of one in blocks. Collective over the mesh.
  subroutine field_wrap(field, mesh, array, dims, name, memory, ierr)
    class(shard_field), intent(inout) :: field
    type(shard_mesh), intent(in) :: mesh
    type(*), dimension(..), intent(in), target :: array
    type(shard_dim), intent(in), target :: dims(:)
    character(*), intent(in), optional :: name
    integer(c_int), intent(in), optional :: memory
    integer, intent(out), optional :: ierr
    type(c_dimension) :: c(size(dims))
    type(c_ptr) :: made
    integer(c_int) :: code, where, blocked
    integer :: d
    blocked = -1
    do d = 1, size(dims)
      c(d) = dims(d)%c
      if (allocated(dims(d)%begins)) c(d)%begins = c_loc(dims(d)%begins)
      if (dims(d)%blocked) blocked = int(d - 1, c_int)
    end do
    where = shard_host
    if (present(memory)) where = memory
    made = c_null_ptr
    if (present(name)) then
      code = c_wrap(mesh%handle, name//c_null_char, array, where, int(size(dims), c_int), c, blocked, made)
    else
      code = c_wrap(mesh%handle, ''//c_null_char, array, where, int(size(dims), c_int), c, blocked, made)
    end if
    if (code == 0) code = c_reversed(made, 1_c_int)
    call adopt(field, made, code, ierr)
  end subroutine
  subroutine field_rebind(field, array, ierr)
    class(shard_field), intent(in) :: field
    type(*), dimension(..), intent(in), target :: array
    integer, intent(out), optional :: ierr
    call answer(c_rebind(field%handle, array), ierr)
  end subroutine
  subroutine field_owned(field, dimension, first, count, ierr)
    class(shard_field), intent(in) :: field
    integer, intent(in) :: dimension
    integer, intent(out) :: first, count
    integer, intent(out), optional :: ierr
    integer(c_int64_t) :: f, c
    integer(c_int) :: code
    f = 0
    c = 0
    code = c_field_owned(field%handle, int(dimension - 1, c_int), f, c)
    first = int(f) + 1
    count = int(c)
    call answer(code, ierr)
  end subroutine

  !> One message for each neighbour. `faces`: without corners. `width`, `layers`: of the halo. `axes`: only halos
  !! along these. `short_messages`: of at most 4000 bytes by MPI, where the parts of the halo are as short. Collective
  !! over the mesh.
  subroutine exchange_plan(exchange, fields, faces, width, layers, axes, short_messages, ierr)
    class(shard_exchange), intent(inout) :: exchange
    type(shard_field), intent(in) :: fields(:)
    logical, intent(in), optional :: faces, short_messages
    integer, intent(in), optional :: width, layers, axes(:)
    integer, intent(out), optional :: ierr
    type(c_options) :: options
    type(c_ptr) :: made
    integer(c_int) :: code
    integer :: i
    if (present(faces)) options%faces = merge(1_c_int, 0_c_int, faces)
    if (present(short_messages)) options%messages = merge(1_c_int, 0_c_int, short_messages)
    if (present(width)) options%width = int(width, c_int)
    if (present(layers)) options%layers = int(layers, c_int)
    if (present(axes)) then
      do i = 1, size(axes)
        options%axes = ibset(options%axes, axes(i) - 1)
      end do
    end if
    made = c_null_ptr
    code = c_exchange_create(int(size(fields), c_int), handles_of(fields), options, made)
    call adopt(exchange, made, code, ierr)
  end subroutine
  !> One field more, in the same messages; its name is that of wrap. An exchange without a plan gets one of this field,
  !! which is collective; else the next run is.
  subroutine exchange_add(exchange, field, ierr)
    class(shard_exchange), intent(inout) :: exchange
    type(shard_field), intent(in) :: field
    integer, intent(out), optional :: ierr
    if (.not. c_associated(exchange%handle)) then
      call exchange%plan([field], ierr=ierr)
    else
      call answer(c_exchange_add(exchange%handle, field%handle), ierr)
    end if
  end subroutine
  !> One field less. The next run is collective.
  subroutine exchange_remove(exchange, name, ierr)
    class(shard_exchange), intent(in) :: exchange
    character(*), intent(in) :: name
    integer, intent(out), optional :: ierr
    call answer(c_exchange_remove(exchange%handle, name//c_null_char), ierr)
  end subroutine
  !> `fill` is called for sides whose boundary is given(). It must not be an internal procedure of one that returns
  !! before the last run.
  subroutine exchange_set_boundary(exchange, fill, ierr)
    class(shard_exchange), intent(in) :: exchange
    procedure(shard_fill) :: fill
    integer, intent(out), optional :: ierr
    call answer(c_exchange_set_boundary(exchange%handle, c_funloc(call_fill), transfer(c_funloc(fill), c_null_ptr)), ierr)
  end subroutine
  subroutine call_fill(context, name, origin, rank, adjoint, dimension, high, begin, end) bind(c)
    type(c_ptr), value :: context, name, origin
    integer(c_int), value :: rank, adjoint, dimension, high
    integer(c_int64_t), intent(in) :: begin(rank), end(rank)
    procedure(shard_fill), pointer :: fill
    if (.not. c_associated(origin)) return  ! a rank without elements
    call c_f_procpointer(transfer(context, c_null_funptr), fill)
    call fill(text_of(name), adjoint /= 0, int(dimension) + 1, high /= 0, int(begin) + 1, int(end))
  end subroutine
  !> Fills the halos.
  subroutine exchange_run(exchange, ierr)
    class(shard_exchange), intent(in) :: exchange
    integer, intent(out), optional :: ierr
    call answer(c_exchange_run(exchange%handle), ierr)
  end subroutine
  !> The transpose: adds halos to their owners and zeroes them.
  subroutine exchange_adjoint(exchange, ierr)
    class(shard_exchange), intent(in) :: exchange
    integer, intent(out), optional :: ierr
    call answer(c_exchange_adjoint(exchange%handle), ierr)
  end subroutine
  subroutine exchange_start(exchange, ierr)
    class(shard_exchange), intent(in) :: exchange
    integer, intent(out), optional :: ierr
    call answer(c_exchange_start(exchange%handle), ierr)
  end subroutine
  subroutine exchange_start_adjoint(exchange, ierr)
    class(shard_exchange), intent(in) :: exchange
    integer, intent(out), optional :: ierr
    call answer(c_exchange_start_adjoint(exchange%handle), ierr)
  end subroutine
  subroutine exchange_finish(exchange, ierr)
    class(shard_exchange), intent(in) :: exchange
    integer, intent(out), optional :: ierr
    call answer(c_exchange_finish(exchange%handle), ierr)
  end subroutine
  !> Lets messages progress, without waiting: over a network MPI sends long ones while it is called.
  subroutine exchange_advance(exchange, ierr)
    class(shard_exchange), intent(in) :: exchange
    integer, intent(out), optional :: ierr
    call answer(c_exchange_advance(exchange%handle), ierr)
  end subroutine

  !> Copies the owned elements of the fields `from` to the fields `to` of another mesh; a rank that isn't on a side
  !! leaves it out. Collective over `comm`, which has the ranks of both.
  subroutine coupling_create(coupling, comm, to, from, ierr)
    class(shard_coupling), intent(inout) :: coupling
    type(*), dimension(..), intent(in) :: comm
    type(shard_field), intent(in), optional :: to(:), from(:)
    integer, intent(out), optional :: ierr
    type(c_ptr), allocatable :: of_to(:), of_from(:)
    type(c_ptr) :: made
    integer(c_int) :: code, of_mpi
    of_to = handles_of(to)
    of_from = handles_of(from)
    made = c_null_ptr
    code = c_comm(comm, of_mpi)
    if (code == 0) code = c_coupling_create(of_mpi, size(of_to, kind=c_int), of_to, size(of_from, kind=c_int), of_from, made)
    call adopt(coupling, made, code, ierr)
  end subroutine
  function handles_of(fields) result(handles)
    type(shard_field), intent(in), optional :: fields(:)
    type(c_ptr), allocatable :: handles(:)
    integer :: i
    if (present(fields)) then
      allocate (handles(size(fields)))
      do i = 1, size(fields)
        handles(i) = fields(i)%handle
      end do
    else
      allocate (handles(0))
    end if
  end function
  subroutine coupling_put(coupling, ierr)
    class(shard_coupling), intent(in) :: coupling
    integer, intent(out), optional :: ierr
    call answer(c_coupling_put(coupling%handle), ierr)
  end subroutine
  subroutine coupling_get(coupling, ierr)
    class(shard_coupling), intent(in) :: coupling
    integer, intent(out), optional :: ierr
    call answer(c_coupling_get(coupling%handle), ierr)
  end subroutine
  subroutine coupling_finish(coupling, ierr)
    class(shard_coupling), intent(in) :: coupling
    integer, intent(out), optional :: ierr
    call answer(c_coupling_finish(coupling%handle), ierr)
  end subroutine
  subroutine coupling_run(coupling, ierr)
    class(shard_coupling), intent(in) :: coupling
    integer, intent(out), optional :: ierr
    call answer(c_coupling_run(coupling%handle), ierr)
  end subroutine
  subroutine coupling_adjoint(coupling, ierr)
    class(shard_coupling), intent(in) :: coupling
    integer, intent(out), optional :: ierr
    call answer(c_coupling_adjoint(coupling%handle), ierr)
  end subroutine

  !> Copies the owned elements to a field of other partitions or sharded dimensions. Collective.
  subroutine redistribute(to, from, ierr)
    type(shard_field), intent(in) :: to, from
    integer, intent(out), optional :: ierr
    call answer(c_redistribute(to%handle, from%handle), ierr)
  end subroutine
  !> The transpose: adds `to` to `from`.
  subroutine redistribute_adjoint(from, to, ierr)
    type(shard_field), intent(in) :: from, to
    integer, intent(out), optional :: ierr
    call answer(c_redistribute_adjoint(from%handle, to%handle), ierr)
  end subroutine
  !> Copies the owned elements of all ranks to an array of rank `root` (from 0). Collective.
  subroutine gather(array, field, root, ierr)
    type(*), dimension(..), intent(in), target :: array
    type(shard_field), intent(in) :: field
    integer, intent(in) :: root
    integer, intent(out), optional :: ierr
    call answer(c_gather(array, field%handle, int(root, c_int)), ierr)
  end subroutine
  !> The inverse.
  subroutine scatter(field, array, root, ierr)
    type(shard_field), intent(in) :: field
    type(*), dimension(..), intent(in), target :: array
    integer, intent(in) :: root
    integer, intent(out), optional :: ierr
    call answer(c_scatter(field%handle, array, int(root, c_int)), ierr)
  end subroutine

  !> Writes fields under their names, and numbers that are the same on every rank (a step, a time), into one file that
  !! any number of ranks can read. Collective.
  subroutine save_checkpoint(path, fields, numbers, ierr)
    character(*), intent(in) :: path
    type(shard_field), intent(in) :: fields(:)
    real(real64), intent(in), optional :: numbers(:)
    integer, intent(out), optional :: ierr
    real(c_double), allocatable :: values(:)
    allocate (values(0))
    if (present(numbers)) values = numbers
    call answer(c_save(path//c_null_char, size(fields, kind=c_int), handles_of(fields), size(values, kind=c_int), values), &
                ierr)
  end subroutine
  !> Reads them. Halos aren't filled. Collective.
  subroutine load_checkpoint(path, fields, numbers, ierr)
    character(*), intent(in) :: path
    type(shard_field), intent(in) :: fields(:)
    real(real64), intent(inout), optional :: numbers(:)
    integer, intent(out), optional :: ierr
    real(c_double), allocatable :: values(:)
    integer(c_int) :: code
    allocate (values(0))
    if (present(numbers)) values = numbers
    code = c_load(path//c_null_char, size(fields, kind=c_int), handles_of(fields), size(values, kind=c_int), values)
    if (present(numbers)) numbers = values
    call answer(code, ierr)
  end subroutine

  !> Begins a file; extend: a copy of the one that is there, to which the same is declared.
  subroutine output_create(output, mesh, path, extend, ierr)
    class(shard_output), intent(inout) :: output
    type(shard_mesh), intent(in) :: mesh
    character(*), intent(in) :: path
    logical, intent(in), optional :: extend
    integer, intent(out), optional :: ierr
    type(c_ptr) :: made
    integer(c_int) :: code, extends
    extends = 0
    if (present(extend)) extends = merge(1_c_int, 0_c_int, extend)
    made = c_null_ptr
    code = c_output_create(mesh%handle, path//c_null_char, extends, made)
    call adopt(output, made, code, ierr)
  end subroutine
  subroutine output_dimension(output, name, size, ierr)
    class(shard_output), intent(in) :: output
    character(*), intent(in) :: name
    integer, intent(in) :: size
    integer, intent(out), optional :: ierr
    call answer(c_output_dimension(output%handle, name//c_null_char, int(size, c_int64_t)), ierr)
  end subroutine
  !> A dimension and its values. Without units 'lat' and 'lon' have the attributes of CF.
  subroutine output_coordinate(output, name, values, units, ierr)
    class(shard_output), intent(in) :: output
    character(*), intent(in) :: name
    real(real64), intent(in) :: values(:)
    character(*), intent(in), optional :: units
    integer, intent(out), optional :: ierr
    character(kind=c_char), allocatable, target :: of_units(:)
    type(c_ptr) :: given
    given = c_text(units, of_units)
    call answer(c_output_coordinate(output%handle, name//c_null_char, size(values, kind=c_int64_t), values, given), ierr)
  end subroutine
  !> The dimension 'time', without an end.
  subroutine output_time(output, units, calendar, ierr)
    class(shard_output), intent(in) :: output
    character(*), intent(in) :: units
    character(*), intent(in), optional :: calendar
    integer, intent(out), optional :: ierr
    if (present(calendar)) then
      call answer(c_output_time(output%handle, units//c_null_char, calendar//c_null_char), ierr)
    else
      call answer(c_output_time(output%handle, units//c_null_char, 'standard'//c_null_char), ierr)
    end if
  end subroutine
  !> A variable over these dimensions, in the order of the array's; time is the last. `type`: in_double by default.
  subroutine output_variable(output, name, dimensions, type, long_name, units, ierr)
    class(shard_output), intent(in) :: output
    character(*), intent(in) :: name, dimensions(:)
    integer(c_int), intent(in), optional :: type
    character(*), intent(in), optional :: long_name, units
    integer, intent(out), optional :: ierr
    character(kind=c_char), target :: names(len(dimensions) + 1, size(dimensions))
    character(kind=c_char), allocatable, target :: of_name(:), of_units(:)
    type(c_ptr) :: slowest_first(size(dimensions)), given_name, given_units
    integer(c_int) :: of_type
    integer :: d, i, n
    n = size(dimensions)
    do d = 1, n
      names(:, d) = c_null_char
      do i = 1, len_trim(dimensions(d))
        names(i, d) = dimensions(d) (i:i)
      end do
      slowest_first(n + 1 - d) = c_loc(names(1, d))
    end do
    of_type = in_double
    if (present(type)) of_type = type
    given_name = c_text(long_name, of_name)
    given_units = c_text(units, of_units)
    call answer(c_output_variable(output%handle, name//c_null_char, of_type, int(n, c_int), slowest_first, given_name, &
                                  given_units), ierr)
  end subroutine
  !> A text as C has it, in `kept`; null if it is absent.
  function c_text(text, kept) result(address)
    character(*), intent(in), optional :: text
    character(kind=c_char), allocatable, intent(out), target :: kept(:)
    type(c_ptr) :: address
    integer :: i
    address = c_null_ptr
    if (.not. present(text)) return
    allocate (kept(len(text) + 1))
    do i = 1, len(text)
      kept(i) = text(i:i)
    end do
    kept(len(text) + 1) = c_null_char
    address = c_loc(kept)
  end function
  !> `entry`: of the variable's last dimension (a time), from 1; absent if the field has all dimensions.
  subroutine output_write_field(output, variable, field, entry, ierr)
    class(shard_output), intent(in) :: output
    character(*), intent(in) :: variable
    type(shard_field), intent(in) :: field
    integer, intent(in), optional :: entry
    integer, intent(out), optional :: ierr
    integer(c_int64_t) :: at
    at = -1
    if (present(entry)) at = int(entry - 1, c_int64_t)
    call answer(c_output_write(output%handle, variable//c_null_char, at, field%handle), ierr)
  end subroutine
  !> An entry, from 1, of a variable of one dimension, such as 'time'.
  subroutine output_write_number(output, variable, value, entry, ierr)
    class(shard_output), intent(in) :: output
    character(*), intent(in) :: variable
    real(real64), intent(in) :: value
    integer, intent(in) :: entry
    integer, intent(out), optional :: ierr
    call answer(c_output_number(output%handle, variable//c_null_char, int(entry - 1, c_int64_t), value), ierr)
  end subroutine
  subroutine output_close(output, ierr)
    class(shard_output), intent(in) :: output
    integer, intent(out), optional :: ierr
    call answer(c_output_close(output%handle), ierr)
  end subroutine

  !> (A x)(i) = the sum over p of coefficients(p)(i) x(i + offsets(:, p)). The offsets reach as far as x's halo, whose
  !! boundaries are those of A. All fields are of real64. `singular`: A maps constants to 0. `order`: ordered for the
  !! same bits on every mesh. Collective.
  subroutine solver_create(solver, x, offsets, coefficients, method, preconditioner, relative, absolute, iterations, &
                           restart, order, singular, smoothing, ierr)
    class(shard_solver), intent(inout) :: solver
    type(shard_field), intent(in) :: x, coefficients(:)
    integer, intent(in) :: offsets(:, :)
    integer(c_int), intent(in), optional :: method, preconditioner, order
    real(real64), intent(in), optional :: relative, absolute
    integer, intent(in), optional :: iterations, restart, smoothing
    logical, intent(in), optional :: singular
    integer, intent(out), optional :: ierr
    type(c_solver_options) :: options
    type(c_ptr) :: made
    integer(c_int) :: code
    if (present(method)) options%method = method
    if (present(preconditioner)) options%preconditioner = preconditioner
    if (present(order)) options%order = order
    if (present(relative)) options%relative = relative
    if (present(absolute)) options%absolute = absolute
    if (present(iterations)) options%iterations = int(iterations, c_int)
    if (present(restart)) options%restart = int(restart, c_int)
    if (present(smoothing)) options%smoothing = int(smoothing, c_int)
    if (present(singular)) options%singular = merge(1_c_int, 0_c_int, singular)
    made = c_null_ptr
    code = c_solver_create(x%handle, min(size(offsets, 2, c_int), size(coefficients, kind=c_int)), &
                           reshape(int(offsets, c_int), [size(offsets)]), handles_of(coefficients), options, made)
    call adopt(solver, made, code, ierr)
  end subroutine
  subroutine allocation_create(allocation, mesh, bytes, ierr)
    class(shard_allocation), intent(inout) :: allocation
    type(shard_mesh), intent(in) :: mesh
    integer(int64), intent(in) :: bytes
    integer, intent(out), optional :: ierr
    type(c_ptr) :: made, first
    integer(c_int) :: code
    made = c_null_ptr
    first = c_null_ptr
    code = c_allocate(mesh%handle, bytes, made, first)
    call adopt(allocation, made, code, ierr)
  end subroutine
  function allocation_address(allocation, ierr) result(first)
    class(shard_allocation), intent(in) :: allocation
    integer, intent(out), optional :: ierr
    type(c_ptr) :: first
    first = c_null_ptr
    call answer(c_allocation_address(allocation%handle, first), ierr)
  end function
  subroutine solver_update(solver, ierr)
    class(shard_solver), intent(in) :: solver
    integer, intent(out), optional :: ierr
    call answer(c_solver_update(solver%handle), ierr)
  end subroutine
  subroutine solver_apply(solver, y, x, ierr)
    class(shard_solver), intent(in) :: solver
    type(shard_field), intent(in) :: y, x
    integer, intent(out), optional :: ierr
    call answer(c_solver_apply(solver%handle, y%handle, x%handle), ierr)
  end subroutine
  !> From the given x. Not to converge is no error: see `converged`.
  subroutine solver_solve(solver, x, b, converged, iterations, residual, ierr)
    class(shard_solver), intent(in) :: solver
    type(shard_field), intent(in) :: x, b
    logical, intent(out), optional :: converged
    integer, intent(out), optional :: iterations
    real(real64), intent(out), optional :: residual
    integer, intent(out), optional :: ierr
    type(c_solve_result) :: result
    integer(c_int) :: code
    code = c_solver_solve(solver%handle, x%handle, b%handle, result)
    if (present(converged)) converged = result%converged /= 0
    if (present(iterations)) iterations = int(result%iterations)
    if (present(residual)) residual = result%residual
    call answer(code, ierr)
  end subroutine

  !> Makes the network of this name on a mesh, with new parameters. Collective, as all that follows.
  subroutine network_open(network, mesh, name, ierr)
    class(shard_network), intent(inout) :: network
    type(shard_mesh), intent(in) :: mesh
    character(*), intent(in) :: name
    integer, intent(out), optional :: ierr
    type(c_ptr) :: made
    integer(c_int) :: code
    made = c_null_ptr
    code = c_network_open(mesh%handle, name//c_null_char, made)
    call adopt(network, made, code, ierr)
  end subroutine
  !> Reads the parameters from a safetensors file, such as PyTorch writes. `prefix`: of the names in it.
  subroutine network_load(network, path, prefix, ierr)
    class(shard_network), intent(in) :: network
    character(*), intent(in) :: path
    character(*), intent(in), optional :: prefix
    integer, intent(out), optional :: ierr
    if (present(prefix)) then
      call answer(c_network_load(network%handle, path//c_null_char, prefix//c_null_char), ierr)
    else
      call answer(c_network_load(network%handle, path//c_null_char, c_null_char), ierr)
    end if
  end subroutine
  subroutine network_save(network, path, ierr)
    class(shard_network), intent(in) :: network
    character(*), intent(in) :: path
    integer, intent(out), optional :: ierr
    call answer(c_network_save(network%handle, path//c_null_char), ierr)
  end subroutine
  subroutine network_restore(network, path, ierr)
    class(shard_network), intent(in) :: network
    character(*), intent(in) :: path
    integer, intent(out), optional :: ierr
    call answer(c_network_restore(network%handle, path//c_null_char), ierr)
  end subroutine
  !> y = network(x). Any partitions, halos and strides; x's halo isn't read, y's isn't written.
  subroutine network_apply(network, y, x, ierr)
    class(shard_network), intent(in) :: network
    type(shard_field), intent(in) :: y, x
    integer, intent(out), optional :: ierr
    call answer(c_network_apply(network%handle, y%handle, x%handle), ierr)
  end subroutine
  !> From dy = dJ/dy at the x of the last apply: sets dx = dJ/dx if it is there, and adds to the parameters' gradients.
  subroutine network_pullback(network, dy, dx, ierr)
    class(shard_network), intent(in) :: network
    type(shard_field), intent(in) :: dy
    type(shard_field), intent(in), optional :: dx
    integer, intent(out), optional :: ierr
    type(c_ptr) :: to
    to = c_null_ptr
    if (present(dx)) to = dx%handle
    call answer(c_network_pullback(network%handle, to, dy%handle), ierr)
  end subroutine
  subroutine network_set_training(network, training, ierr)
    class(shard_network), intent(in) :: network
    logical, intent(in) :: training
    integer, intent(out), optional :: ierr
    call answer(c_network_set_training(network%handle, merge(1_c_int, 0_c_int, training)), ierr)
  end subroutine
  !> kind: sgd, adam or adamw, with PyTorch's defaults. `clip`: the gradients' largest norm.
  subroutine network_set_optimiser(network, kind, learning_rate, momentum, beta1, beta2, eps, weight_decay, clip, ierr)
    class(shard_network), intent(in) :: network
    integer(c_int), intent(in) :: kind
    real(real64), intent(in), optional :: learning_rate, momentum, beta1, beta2, eps, weight_decay, clip
    integer, intent(out), optional :: ierr
    type(c_optimiser_options) :: options
    options%kind = kind
    if (present(learning_rate)) options%learning_rate = learning_rate
    if (present(momentum)) options%momentum = momentum
    if (present(beta1)) options%beta1 = beta1
    if (present(beta2)) options%beta2 = beta2
    if (present(eps)) options%eps = eps
    if (present(weight_decay)) options%weight_decay = weight_decay
    if (present(clip)) options%clip = clip
    call answer(c_network_set_optimiser(network%handle, options), ierr)
  end subroutine
  !> Sums the gradients over the ranks, changes the parameters, sets the gradients to 0. `norm`: of the gradients.
  subroutine network_step(network, learning_rate, norm, ierr)
    class(shard_network), intent(in) :: network
    real(real64), intent(in), optional :: learning_rate
    real(real64), intent(out), optional :: norm
    integer, intent(out), optional :: ierr
    real(c_double) :: rate, found
    integer(c_int) :: code
    rate = 0
    found = 0
    if (present(learning_rate)) rate = learning_rate
    code = c_network_step(network%handle, rate, found)
    if (present(norm)) norm = found
    call answer(code, ierr)
  end subroutine
  !> All parameters and this rank's part of their gradients, in the network's memory; null() if they are of another
  !! kind. Local.
  subroutine network_parameters_32(network, values, gradients, ierr)
    class(shard_network), intent(in) :: network
    real(real32), pointer, intent(out) :: values(:)
    real(real32), pointer, intent(out), optional :: gradients(:)
    integer, intent(out), optional :: ierr
    type(c_ptr) :: of_values, of_gradients
    integer(c_int64_t) :: count
    values => null()
    if (present(gradients)) gradients => null()
    if (.not. has_parameters(network, in_float, count, of_values, of_gradients, ierr)) return
    call c_f_pointer(of_values, values, [count])
    if (present(gradients)) call c_f_pointer(of_gradients, gradients, [count])
  end subroutine
  subroutine network_parameters_64(network, values, gradients, ierr)
    class(shard_network), intent(in) :: network
    real(real64), pointer, intent(out) :: values(:)
    real(real64), pointer, intent(out), optional :: gradients(:)
    integer, intent(out), optional :: ierr
    type(c_ptr) :: of_values, of_gradients
    integer(c_int64_t) :: count
    values => null()
    if (present(gradients)) gradients => null()
    if (.not. has_parameters(network, in_double, count, of_values, of_gradients, ierr)) return
    call c_f_pointer(of_values, values, [count])
    if (present(gradients)) call c_f_pointer(of_gradients, gradients, [count])
  end subroutine
  logical function has_parameters(network, type, count, values, gradients, ierr) result(has)
    class(shard_network), intent(in) :: network
    integer(c_int), intent(in) :: type
    integer(c_int64_t), intent(out) :: count
    type(c_ptr), intent(out) :: values, gradients
    integer, intent(out), optional :: ierr
    integer(c_int) :: code, of_type
    code = c_network_parameters(network%handle, of_type, count, values, gradients)
    has = code == 0 .and. of_type == type
    call answer(code, ierr)
  end function

  !> The sum of all owned elements. Collective.
  function sum_of(field, order, ierr) result(value)
    type(shard_field), intent(in) :: field
    integer(c_int), intent(in), optional :: order
    integer, intent(out), optional :: ierr
    real(real64) :: value
    integer(c_int) :: by
    by = on_one_mesh
    if (present(order)) by = order
    value = 0
    call answer(c_sum(field%handle, by, value, c_null_ptr), ierr)
  end function
  !> The sum of the products of two fields. Collective.
  function dot_of(a, b, order, ierr) result(value)
    type(shard_field), intent(in) :: a, b
    integer(c_int), intent(in), optional :: order
    integer, intent(out), optional :: ierr
    real(real64) :: value
    integer(c_int) :: by
    by = on_one_mesh
    if (present(order)) by = order
    value = 0
    call answer(c_dot(a%handle, b%handle, by, value), ierr)
  end function
  function min_of(field, ierr) result(value)
    type(shard_field), intent(in) :: field
    integer, intent(out), optional :: ierr
    real(real64) :: value
    value = 0
    call answer(c_min(field%handle, value), ierr)
  end function
  function max_of(field, ierr) result(value)
    type(shard_field), intent(in) :: field
    integer, intent(out), optional :: ierr
    real(real64) :: value
    value = 0
    call answer(c_max(field%handle, value), ierr)
  end function
  !> The sum of the bit patterns modulo 2**64: the same on every mesh. Collective.
  function checksum_of(field, ierr) result(value)
    type(shard_field), intent(in) :: field
    integer, intent(out), optional :: ierr
    integer(int64) :: value
    value = 0
    call answer(c_checksum(field%handle, value), ierr)
  end function

end module
