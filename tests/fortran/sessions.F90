! Sessions that come and go, before, beside and without the World Model (chapter 11).
#include "interface.h"
program sessions
  MPI_MODULE
  implicit none
  MPI_INCLUDE
  integer :: rank, ranks, ierror, turn
  logical :: flag

  ! Two sessions, one after the other, before MPI_Init; then one beside it; then one after MPI_Finalize.
  do turn = 1, 2
    call one_session()
  end do
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call one_session()
  call MPI_Finalize(ierror)
  call one_session()
  call MPI_Finalized(flag, ierror)
  CHECK(flag)
  if (rank == 0) print '(a, i0, a)', 'sessions: ok with ', ranks, ' ranks'

contains
#include "check.inc"

  subroutine one_session()
    SESSION :: session
    GROUP :: group
    COMM :: comm
    INFO :: info
    integer :: number, index, length, sum, members
    character(len=40) :: name
    character(len=5) :: short
    logical :: found_world, found_self
    call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call MPI_Session_get_num_psets(session, MPI_INFO_NULL, number, ierror)
    CHECK(number >= 2)
    found_world = .false.
    found_self = .false.
    do index = 0, number - 1
      length = 0
      call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, index, length, name, ierror)
      CHECK(ierror == MPI_SUCCESS .and. length > 0)
      call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, index, length, name, ierror)
      CHECK(len_trim(name) == length)
      found_world = found_world .or. name == 'mpi://WORLD'
      found_self = found_self .or. name == 'mpi://SELF'
    end do
    CHECK(found_world .and. found_self)
    length = len(short)
    call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, short, ierror)
    CHECK(short == 'mpi:/' .or. short == 'MPI:/')
    call MPI_Session_get_pset_info(session, 'mpi://WORLD  ', info, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call MPI_Info_get(info, 'mpi_size', len(name), name, flag, ierror)
    CHECK(flag)
    read (name, *) members
    call MPI_Info_free(info, ierror)
    call MPI_Group_from_session_pset(session, 'mpi://WORLD', group, ierror)
    call MPI_Comm_create_from_group(group, 'a tag ', MPI_INFO_NULL, MPI_ERRORS_RETURN, comm, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call MPI_Group_free(group, ierror)
    call MPI_Allreduce(1, sum, 1, MPI_INTEGER, MPI_SUM, comm, ierror)
    CHECK(sum == members)
    call MPI_Comm_free(comm, ierror)
    call MPI_Group_from_session_pset(session, 'mpi://NOWHERE', group, ierror)
    CHECK(ierror /= MPI_SUCCESS)
    call MPI_Session_finalize(session, ierror)
    CHECK(ierror == MPI_SUCCESS)
    CHECK(session == MPI_SESSION_NULL)
  end subroutine one_session
end program sessions
