!     Attributes where there is no MPI_Init: callbacks come where a
!     communicator is freed, not where its session ends; keys outlive
!     sessions.
#include "interface.h"
#include "checks.inc"
      module callbacks
      MPI_MODULE
      use checks
      implicit none
      MPI_INCLUDE
      integer, parameter :: A = MPI_ADDRESS_KIND
      integer :: copies = 0, deletions = 0, key, ierr
      integer :: answer = MPI_SUCCESS
      contains

      subroutine copy(comm, keyval, state, old, new, flag, ierr)
      COMM :: comm
      integer :: keyval, ierr
      integer(A) :: state, old, new
      logical :: flag
      copies = copies + 1
      new = old + state
      flag = .true.
      ierr = answer
      end subroutine copy

      subroutine delete(comm, keyval, value, state, ierr)
      COMM :: comm
      integer :: keyval, ierr
      integer(A) :: value, state
      integer :: rank
      call MPI_Comm_rank(comm, rank, ierr)
      call check(ierr == 0, 'rank in a callback')
      deletions = deletions + 1
      ierr = answer
      end subroutine delete

      subroutine open_session(session, comm)
      SESSION :: session
      COMM :: comm
      GROUP :: group
      call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session,   &
     &  ierr)
      call check(ierr == 0, 'session')
      call MPI_Group_from_session_pset(session, 'mpi://WORLD', group,    &
     &  ierr)
      call check(ierr == 0, 'group')
      call MPI_Comm_create_from_group(group, 'weft.fortran',             &
     &  MPI_INFO_NULL, MPI_ERRORS_RETURN, comm, ierr)
      call check(ierr == 0, 'communicator')
      call MPI_Group_free(group, ierr)
      end subroutine open_session
      end module callbacks

      program sessions
      use checks
      use callbacks
      implicit none
      SESSION :: session
      COMM :: comm, dup
      integer :: class, was
      integer(A) :: value
      logical :: flag
      call open_session(session, comm)
      call MPI_Comm_create_keyval(copy, delete, key, 3_A, ierr)
      call MPI_Comm_set_attr(comm, key, 2_A ** 40, ierr)
      call MPI_Comm_dup(comm, dup, ierr)
      call check(ierr == 0 .and. copies == 1, 'copied')
      call MPI_Comm_get_attr(dup, key, value, flag, ierr)
      call check(flag .and. value == 2_A ** 40 + 3, 'the copy')
      call MPI_Comm_free(dup, ierr)
      call check(deletions == 1, 'deleted')
      answer = MPI_ERR_COUNT
      call MPI_Comm_free(comm, ierr)
      call MPI_Error_class(ierr, class, was)
      call check(class == MPI_ERR_COUNT, 'free fails')
      call MPI_Comm_dup(comm, dup, ierr)
      call MPI_Error_class(ierr, class, was)
      call check(class == MPI_ERR_COUNT, 'dup fails')
      answer = MPI_SUCCESS
      call MPI_Comm_get_attr(comm, key, value, flag, ierr)
      call check(flag .and. value == 2_A ** 40, 'it is still there')
      was = deletions
      call MPI_Comm_disconnect(comm, ierr)
      call check(ierr == 0 .and. deletions == was + 1, 'disconnected')
      call MPI_Session_finalize(session, ierr)
      call check(ierr == 0, 'end of the session')
!     Another session; the key is there still.
      call open_session(session, comm)
      call MPI_Comm_set_attr(comm, key, 1_A, ierr)
      call check(ierr == 0, 'the key in the next session')
      was = deletions
      call MPI_Comm_free(comm, ierr)
      call check(deletions == was + 1, 'freed in the next session')
      call MPI_Comm_free_keyval(key, ierr)
      call MPI_Session_finalize(session, ierr)
      call check(ierr == 0, 'end of the next session')
      end program sessions
