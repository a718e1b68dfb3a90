!     Generalized requests of Fortran's.
#include "interface.h"
#include "checks.inc"
      module callbacks
      MPI_MODULE
      use checks
      implicit none
      MPI_INCLUDE
      integer, parameter :: A = MPI_ADDRESS_KIND
      integer(A), parameter :: BIG = 2_A ** 40
      integer :: queries = 0, frees = 0, cancels = 0
      integer :: answer = MPI_SUCCESS
      integer(A) :: last_state = 0
      logical :: completed = .false., cancelled = .false.
      contains

      subroutine query(state, status, ierr)
      integer(A) :: state
#ifdef USE_F08
      type(MPI_Status) :: status
#else
      integer :: status(MPI_STATUS_SIZE)
#endif
      integer :: ierr
      queries = queries + 1
      last_state = state
      call MPI_Status_set_elements(status, MPI_INTEGER, 6, ierr)
      call MPI_Status_set_cancelled(status, cancelled, ierr)
#ifdef USE_F08
      status%MPI_SOURCE = 4
      status%MPI_TAG = 5
#else
      status(MPI_SOURCE) = 4
      status(MPI_TAG) = 5
#endif
      ierr = answer
      end subroutine query

      subroutine free_fn(state, ierr)
      integer(A) :: state
      integer :: ierr
      frees = frees + 1
      last_state = state
      ierr = MPI_SUCCESS
      end subroutine free_fn

      subroutine cancel(state, complete, ierr)
      integer(A) :: state
      logical :: complete
      integer :: ierr
      cancels = cancels + 1
      last_state = state
      completed = complete
      cancelled = .not. complete
      ierr = MPI_SUCCESS
      end subroutine cancel
      end module callbacks

      program generalized
      use checks
      use callbacks
      implicit none
      integer :: ierr, n, i, class
      logical :: flag
      REQUEST :: request
#ifdef USE_F08
      type(MPI_Status) :: status
#else
      integer :: status(MPI_STATUS_SIZE)
#endif
      call MPI_Init(ierr)
      call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN,    &
     &  ierr)
      call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN,   &
     &  ierr)
      call MPI_Grequest_start(query, free_fn, cancel, BIG + 1,          &
     &  request, ierr)
      call check(ierr == 0, 'start')
      call MPI_Test(request, flag, status, ierr)
      call check(.not. flag .and. frees == 0, 'not complete')
      call MPI_Grequest_complete(request, ierr)
      call MPI_Wait(request, status, ierr)
      call check(ierr == 0, 'wait')
      call check(queries == 1 .and. frees == 1, 'called once each')
      call check(last_state == BIG + 1, 'the state')
      call check(request == MPI_REQUEST_NULL, 'no request any more')
      call MPI_Get_elements(status, MPI_INTEGER, n, ierr)
      call check(n == 6, 'elements')
#ifdef USE_F08
      call check(status%MPI_SOURCE == 4, 'source')
      call check(status%MPI_TAG == 5, 'tag')
#else
      call check(status(MPI_SOURCE) == 4, 'source')
      call check(status(MPI_TAG) == 5, 'tag')
#endif
!     Cancelled before it is complete, and after.
      call MPI_Grequest_start(query, free_fn, cancel, 2_A,              &
     &  request, ierr)
      call MPI_Cancel(request, ierr)
      call check(cancels == 1 .and. .not. completed, 'cancelled early')
      call MPI_Grequest_complete(request, ierr)
      call MPI_Cancel(request, ierr)
      call check(cancels == 2 .and. completed, 'cancelled late')
      cancelled = .true.
      call MPI_Wait(request, status, ierr)
      call MPI_Test_cancelled(status, flag, ierr)
      call check(flag .and. frees == 2, 'cancelled')
      cancelled = .false.
!     Without a status, freed early, and with an error.
      call MPI_Grequest_start(query, free_fn, cancel, 3_A,              &
     &  request, ierr)
      call MPI_Grequest_complete(request, ierr)
      call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
      call check(ierr == 0 .and. frees == 3, 'without a status')
      call MPI_Grequest_start(query, free_fn, cancel, 4_A,              &
     &  request, ierr)
      call MPI_Grequest_complete(request, ierr)
      call MPI_Request_free(request, ierr)
      call check(ierr == 0 .and. frees == 4, 'freed')
      call check(last_state == 4, 'state of the freed one')
      answer = MPI_ERR_OTHER
      call MPI_Grequest_start(query, free_fn, cancel, 5_A,              &
     &  request, ierr)
      call MPI_Grequest_complete(request, ierr)
      call MPI_Wait(request, status, ierr)
      call check(ierr /= 0, 'error of a query')
      call MPI_Error_class(ierr, class, n)
      call check(class == MPI_ERR_OTHER, 'its class')
      answer = MPI_SUCCESS
      do i = 1, 2000
        call MPI_Grequest_start(query, free_fn, cancel, int(i, A),      &
     &    request, ierr)
        call MPI_Grequest_complete(request, ierr)
        call MPI_Wait(request, status, ierr)
        call check(ierr == 0 .and. last_state == i, 'one of many')
      end do
      call MPI_Finalize(ierr)
      end program generalized
