! Communicators, groups, info objects, topologies, errors, memory: strings, logicals and arrays of handles, as Fortran has them.
#include "interface.h"
program objects
  MPI_MODULE
  implicit none
  MPI_INCLUDE
  integer :: rank, ranks, ierror
  logical :: flag

  call MPI_Initialized(flag, ierror)
  CHECK(.not. flag)
  call MPI_Init(ierror)
  call MPI_Initialized(flag, ierror)
  CHECK(flag)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call constants()
  call strings()
  call names()
  call infos()
  call groups()
  call cartesian()
  call graphs()
  call errors()
  call memory()
  call handles()
  if (rank == 0) print '(a, i0, a)', 'objects: ok with ', ranks, ' ranks'
  call MPI_Finalize(ierror)
  call MPI_Finalized(flag, ierror)
  CHECK(flag)

contains
#include "check.inc"

  subroutine constants()
    integer :: version, subversion
    integer(kind=MPI_COUNT_KIND) :: count
    integer(kind=MPI_OFFSET_KIND) :: offset
    double precision :: time
    call MPI_Get_version(version, subversion, ierror)
    CHECK(version == MPI_VERSION .and. subversion == MPI_SUBVERSION)
    call MPI_Abi_get_version(version, subversion, ierror)
    CHECK(version == 1 .and. subversion == 0)
    CHECK(kind(offset) == 8 .and. kind(count) == 8)
    CHECK(MPI_STATUS_SIZE == 8)
    CHECK(NUMBER_OF(MPI_COMM_WORLD) == 257)
    CHECK(MPI_ANY_SOURCE == -1 .and. MPI_ANY_TAG == -2 .and. MPI_PROC_NULL == -3)
#if defined(USE_F08)
    CHECK(MPI_SUBARRAYS_SUPPORTED .eqv. MPI_ASYNC_PROTECTS_NONBLOCKING)
#else
    CHECK(.not. MPI_SUBARRAYS_SUPPORTED)
#endif
    time = MPI_Wtime()
    CHECK(MPI_Wtime() >= time)
    CHECK(MPI_Wtick() > 0.0d0 .and. MPI_Wtick() < 1.0d0)
  end subroutine constants

  subroutine strings()
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: library
    character(len=MPI_MAX_PROCESSOR_NAME) :: name
    character(len=MPI_MAX_ERROR_STRING) :: text
#if !defined(USE_F08)
    character(len=9) :: short
#endif
    integer :: length
    library = repeat('x', len(library))
    call MPI_Get_library_version(library, length, ierror)
    CHECK(length > 5 .and. len_trim(library) == length)
    call MPI_Get_processor_name(name, length, ierror)
    CHECK(len_trim(name) == length .and. length > 0)
    call MPI_Error_string(MPI_ERR_TRUNCATE, text, length, ierror)
    CHECK(ierror == MPI_SUCCESS .and. len_trim(text) == length .and. length > 0)
#if !defined(USE_F08)
    ! One that is too short gets the beginning. (With mpi_f08 it does not compile.)
    call MPI_Error_string(MPI_ERR_TRUNCATE, short, length, ierror)
    CHECK(short == text(1:9))
#endif
  end subroutine strings

  subroutine names()
    COMM :: comm
    character(len=MPI_MAX_OBJECT_NAME) :: name
    integer :: length
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
    CHECK(comm /= MPI_COMM_WORLD)
    call MPI_Comm_set_name(comm, '  two blanks in front, and at the end   ', ierror)
    call MPI_Comm_get_name(comm, name, length, ierror)
    CHECK(name == '  two blanks in front, and at the end')
    CHECK(length == 37)
    call MPI_Comm_get_name(MPI_COMM_WORLD, name, length, ierror)
    CHECK(name == 'MPI_COMM_WORLD')
    call MPI_Type_get_name(MPI_DOUBLE_PRECISION, name, length, ierror)
    CHECK(name == 'MPI_DOUBLE_PRECISION')
    call MPI_Comm_free(comm, ierror)
    CHECK(comm == MPI_COMM_NULL)
  end subroutine names

  subroutine infos()
    INFO :: info, other
    character(len=MPI_MAX_INFO_KEY) :: key
    character(len=20) :: value
    character(len=3) :: short
    integer :: number, length
    call MPI_Info_create(info, ierror)
    ! Blanks at both ends are no part of keys and values.
    call MPI_Info_set(info, ' colour ', '  deep blue ', ierror)
    call MPI_Info_set(info, 'size', '12', ierror)
    call MPI_Info_get_nkeys(info, number, ierror)
    CHECK(number == 2)
    call MPI_Info_get_valuelen(info, 'colour', length, flag, ierror)
    CHECK(flag .and. length == 9)
    value = 'x'
    call MPI_Info_get(info, 'colour', len(value), value, flag, ierror)
    CHECK(flag .and. value == 'deep blue')
    call MPI_Info_get(info, 'shape', len(value), value, flag, ierror)
    CHECK(.not. flag .and. value == 'deep blue')
    length = len(value)
    call MPI_Info_get_string(info, 'colour', length, value, flag, ierror)
    CHECK(flag .and. value == 'deep blue' .and. length == 9)
    length = 3
    call MPI_Info_get_string(info, 'colour', length, short, flag, ierror)
    CHECK(flag .and. short == 'dee' .and. length == 9)
    length = 0
    short = 'abc'
    call MPI_Info_get_string(info, 'colour', length, short, flag, ierror)
    CHECK(flag .and. short == 'abc' .and. length == 9)
    call MPI_Info_get_nthkey(info, 0, key, ierror)
    CHECK(key == 'colour' .or. key == 'size')
    call MPI_Info_dup(info, other, ierror)
    call MPI_Info_delete(info, 'size', ierror)
    call MPI_Info_get_nkeys(info, number, ierror)
    CHECK(number == 1)
    call MPI_Info_get(other, 'size', len(value), value, flag, ierror)
    CHECK(flag .and. value == '12')
    call MPI_Info_free(info, ierror)
    call MPI_Info_free(other, ierror)
    CHECK(info == MPI_INFO_NULL)
    call MPI_Info_create_env(info, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call MPI_Info_free(info, ierror)
  end subroutine infos

  subroutine groups()
    GROUP :: world, group
    COMM :: comm
    integer :: range(3, 1), number, theirs(1), mine(1), result
    call MPI_Comm_group(MPI_COMM_WORLD, world, ierror)
    range(:, 1) = [ranks - 1, 0, -1]
    call MPI_Group_range_incl(world, 1, range, group, ierror)
    call MPI_Group_size(group, number, ierror)
    CHECK(number == ranks)
    call MPI_Group_rank(group, number, ierror)
    CHECK(number == ranks - 1 - rank)
    mine = rank
    call MPI_Group_translate_ranks(world, 1, mine, group, theirs, ierror)
    CHECK(theirs(1) == ranks - 1 - rank)
    call MPI_Group_compare(world, group, result, ierror)
    CHECK(result == merge(MPI_IDENT, MPI_SIMILAR, ranks == 1))
    call MPI_Comm_create(MPI_COMM_WORLD, group, comm, ierror)
    call MPI_Comm_rank(comm, number, ierror)
    CHECK(number == ranks - 1 - rank)
    call MPI_Comm_compare(comm, MPI_COMM_WORLD, result, ierror)
    CHECK(result == merge(MPI_CONGRUENT, MPI_SIMILAR, ranks == 1))
    call MPI_Comm_free(comm, ierror)
    call MPI_Group_free(group, ierror)
    call MPI_Group_free(world, ierror)
    call MPI_Comm_split(MPI_COMM_WORLD, merge(MPI_UNDEFINED, 1, rank == 0), -rank, comm, ierror)
    CHECK((comm == MPI_COMM_NULL) .eqv. (rank == 0))
    if (comm /= MPI_COMM_NULL) call MPI_Comm_free(comm, ierror)
    call MPI_Comm_test_inter(MPI_COMM_WORLD, flag, ierror)
    CHECK(.not. flag)
  end subroutine groups

  subroutine cartesian()
    COMM :: cart, sub
    integer :: dims(2), coords(2), number, source, target, kind
    logical :: periods(2), remain(2)
    dims = 0
    call MPI_Dims_create(ranks, 2, dims, ierror)
    CHECK(product(dims) == ranks)
    call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .false.], .false., cart, ierror)
    call MPI_Topo_test(cart, kind, ierror)
    CHECK(kind == MPI_CART)
    periods = .false.
    call MPI_Cart_get(cart, 2, dims, periods, coords, ierror)
    CHECK(periods(1) .and. .not. periods(2))
    call MPI_Cart_rank(cart, coords, number, ierror)
    CHECK(number == rank)
    call MPI_Cart_shift(cart, 1, 1, source, target, ierror)
    CHECK((coords(2) == 0) .eqv. (source == MPI_PROC_NULL))
    call MPI_Cart_shift(cart, 0, 1, source, target, ierror)
    CHECK(source /= MPI_PROC_NULL .and. target /= MPI_PROC_NULL)
    remain = [.false., .true.]
    call MPI_Cart_sub(cart, remain, sub, ierror)
    call MPI_Comm_size(sub, number, ierror)
    CHECK(number == dims(2))
    call MPI_Comm_free(sub, ierror)
    call MPI_Comm_free(cart, ierror)
  end subroutine cartesian

  subroutine graphs()
    COMM :: graph
    integer :: sources(1), targets(1), weights(1), inner, outer, weighted(1), found(1), other(1)
    logical :: has_weights
    sources = mod(rank + ranks - 1, ranks)
    targets = mod(rank + 1, ranks)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, sources, MPI_UNWEIGHTED, 1, targets, MPI_UNWEIGHTED, &
      MPI_INFO_NULL, .false., graph, ierror)
    call MPI_Dist_graph_neighbors_count(graph, inner, outer, has_weights, ierror)
    CHECK(inner == 1 .and. outer == 1 .and. .not. has_weights)
    found = -1
    call MPI_Dist_graph_neighbors(graph, 1, found, MPI_UNWEIGHTED, 1, other, MPI_UNWEIGHTED, ierror)
    CHECK(found(1) == sources(1) .and. other(1) == targets(1))
    call MPI_Comm_free(graph, ierror)
    weights = 3 + rank
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, sources, weights, 1, targets, weights, MPI_INFO_NULL, .false., &
      graph, ierror)
    call MPI_Dist_graph_neighbors_count(graph, inner, outer, has_weights, ierror)
    CHECK(has_weights)
    weighted = -1
    call MPI_Dist_graph_neighbors(graph, 1, found, weighted, 1, other, weights, ierror)
    CHECK(weighted(1) == 3 + rank)
    call MPI_Neighbor_allgather(rank, 1, MPI_INTEGER, found, 1, MPI_INTEGER, graph, ierror)
    CHECK(found(1) == sources(1))
    call MPI_Comm_free(graph, ierror)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, sources, MPI_WEIGHTS_EMPTY, 0, targets, MPI_WEIGHTS_EMPTY, &
      MPI_INFO_NULL, .false., graph, ierror)
    call MPI_Dist_graph_neighbors_count(graph, inner, outer, has_weights, ierror)
    CHECK(inner == 0 .and. outer == 0 .and. has_weights)
    call MPI_Comm_free(graph, ierror)
  end subroutine graphs

  subroutine errors()
    ERRHANDLER :: before
    integer :: class, code, length
    character(len=MPI_MAX_ERROR_STRING) :: text
    call MPI_Comm_get_errhandler(MPI_COMM_WORLD, before, ierror)
    CHECK(before == MPI_ERRORS_ARE_FATAL)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierror)
    call MPI_Send(rank, 1, MPI_INTEGER, ranks, 1, MPI_COMM_WORLD, ierror)
    call MPI_Error_class(ierror, class, code)
    CHECK(class == MPI_ERR_RANK)
    call MPI_Send(rank, -1, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, ierror)
    call MPI_Error_class(ierror, class, code)
    CHECK(class == MPI_ERR_COUNT)
#if defined(USE_F08)
    ! ierror may be left out.
    call MPI_Send(rank, 1, MPI_INTEGER, ranks, 1, MPI_COMM_WORLD)
#endif
    call MPI_Add_error_class(class, ierror)
    call MPI_Add_error_code(class, code, ierror)
    call MPI_Add_error_string(code, 'one of ours   ', ierror)
    call MPI_Error_string(code, text, length, ierror)
    CHECK(text == 'one of ours' .and. length == 11)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, before, ierror)
    call MPI_Errhandler_free(before, ierror)
  end subroutine errors

  subroutine memory()
    use, intrinsic :: iso_c_binding, only : c_ptr, c_f_pointer
    integer(kind=MPI_ADDRESS_KIND), parameter :: bytes = 800
#if defined(USE_MPIF)
    integer(kind=MPI_ADDRESS_KIND) :: address
    call MPI_Alloc_mem(bytes, MPI_INFO_NULL, address, ierror)
    CHECK(ierror == MPI_SUCCESS .and. address /= 0)
#else
    type(c_ptr) :: address
    double precision, pointer :: array(:)
    call MPI_Alloc_mem(bytes, MPI_INFO_NULL, address, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call c_f_pointer(address, array, [100])
    array = rank
    CHECK(sum(array) == 100.0d0 * rank)
    call MPI_Free_mem(array, ierror)
    CHECK(ierror == MPI_SUCCESS)
#endif
#if defined(USE_MPI_MODULE)
    block
      integer(kind=MPI_ADDRESS_KIND) :: number
      call MPI_Alloc_mem(bytes, MPI_INFO_NULL, number, ierror)
      CHECK(number /= 0)
    end block
#endif
  end subroutine memory

  subroutine handles()
#if !defined(USE_MPIF)
    type(MPI_Comm) :: comm
    type(MPI_Status) :: new
    integer :: old(MPI_STATUS_SIZE)
    comm%MPI_VAL = NUMBER_OF(MPI_COMM_WORLD)
    CHECK(comm == comm .and. .not. comm /= comm)
    old = [(10 * rank, rank = 1, MPI_STATUS_SIZE)]
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    call MPI_Status_f2f08(old, new, ierror)
    CHECK(new%MPI_SOURCE == 10 .and. new%MPI_TAG == 20 .and. new%MPI_ERROR == 30)
    old = 0
    call MPI_Status_f082f(new, old, ierror)
    CHECK(old(8) == 80)
#endif
  end subroutine handles
end program objects
