!     Delete callbacks of MPI_COMM_SELF at MPI_Finalize: called in the
!     reverse order of setting, with all of MPI in use.
#include "interface.h"
#include "checks.inc"
      module callbacks
      MPI_MODULE
      use checks
      implicit none
      MPI_INCLUDE
      integer, parameter :: A = MPI_ADDRESS_KIND
      integer :: called(10) = 0, n_called = 0
      logical :: failing = .true.
      contains

      subroutine copy(comm, keyval, state, old, new, flag, ierr)
      COMM :: comm
      integer :: keyval, ierr
      integer(A) :: state, old, new
      logical :: flag
      new = old
      flag = .true.
      ierr = MPI_SUCCESS
      end subroutine copy

      subroutine delete(comm, keyval, value, state, ierr)
      COMM :: comm
      integer :: keyval, ierr
      integer(A) :: value, state
      integer :: rank, ranks, total, one(1), got(1), key, next, last
      logical :: flag
      COMM :: dup
      call check(comm == MPI_COMM_SELF, 'called for another')
      call MPI_Initialized(flag, ierr)
      call check(flag, 'initialized')
      call MPI_Finalized(flag, ierr)
      call check(.not. flag, 'not finalized')
      call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
      call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
      next = mod(rank + 1, ranks)
      last = mod(rank + ranks - 1, ranks)
      one = rank
      got = -1
      call MPI_Sendrecv(one, 1, MPI_INTEGER, next, 1, got, 1,            &
     &  MPI_INTEGER, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
      call check(got(1) == last, 'message at finalize')
      call MPI_Comm_dup(MPI_COMM_WORLD, dup, ierr)
      one = 1
      call MPI_Allreduce(one, got, 1, MPI_INTEGER, MPI_SUM, dup, ierr)
      call check(got(1) == ranks, 'allreduce at finalize')
      call MPI_Comm_free(dup, ierr)
      call MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, key,    &
     &  0_A, ierr)
      call MPI_Comm_set_attr(MPI_COMM_SELF, key, 7_A, ierr)
      call MPI_Comm_delete_attr(MPI_COMM_SELF, key, ierr)
      call MPI_Comm_free_keyval(key, ierr)
      total = n_called + 1
      n_called = total
      called(total) = int(state * 10 + value)
      ierr = MPI_SUCCESS
      end subroutine delete

!     Fails at first: MPI_Finalize returns its error, and can be called
!     again.
      subroutine fail(comm, keyval, value, state, ierr)
      COMM :: comm
      integer :: keyval, ierr
      integer(A) :: value, state
      n_called = n_called + 1
      called(n_called) = -1
      ierr = MPI_SUCCESS
      if (failing) ierr = MPI_ERR_COUNT
      end subroutine fail
      end module callbacks

      program finalize
      use checks
      use callbacks
      implicit none
      integer :: ierr, i, keys(4), order(4)
      logical :: flag
#ifdef FAILS
      integer :: wrong, class
#endif
      call MPI_Init(ierr)
      do i = 1, 4
        call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete,       &
     &    keys(i), int(i, A), ierr)
      end do
!     Not in the order of the keys; and 1 is set once more at the end.
      order = [1, 3, 4, 2]
      do i = 1, 4
        call MPI_Comm_set_attr(MPI_COMM_SELF, keys(order(i)),            &
     &    int(i, A), ierr)
      end do
      call MPI_Comm_set_attr(MPI_COMM_SELF, keys(1), 9_A, ierr)
      call check(n_called == 1 .and. called(1) == 11, 'replaced')
      n_called = 0
#ifdef FAILS
      call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN,     &
     &  ierr)
      call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN,    &
     &  ierr)
      call MPI_Comm_create_keyval(copy, fail, wrong, 0_A, ierr)
      call MPI_Comm_set_attr(MPI_COMM_SELF, wrong, 0_A, ierr)
#endif
!     In use, though freed.
      do i = 1, 4
        call MPI_Comm_free_keyval(keys(i), ierr)
      end do
      call MPI_Finalize(ierr)
#ifdef FAILS
      call MPI_Error_class(ierr, class, wrong)
      call check(class == MPI_ERR_COUNT, 'the error goes through')
      call MPI_Finalized(flag, ierr)
      call check(.not. flag, 'not finalized')
      call check(n_called == 1 .and. called(1) == -1, 'failed first')
      n_called = 0
      failing = .false.
      call MPI_Finalize(ierr)
      call check(called(1) == -1, 'called again')
      called(1:4) = called(2:5)
      n_called = n_called - 1
#endif
      call check(ierr == MPI_SUCCESS, 'finalize')
      call MPI_Finalized(flag, ierr)
      call check(flag, 'finalized')
      call check(n_called == 4, 'number of calls')
      call check(called(1) == 19 .and. called(2) == 24 .and.             &
     &  called(3) == 43 .and. called(4) == 32, 'order of calls')
      end program finalize
