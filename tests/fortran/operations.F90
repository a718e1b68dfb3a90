!     Operations of Fortran's: order of the operands, datatypes, large
!     counts.
#include "interface.h"
#include "checks.inc"
      module callbacks
      MPI_MODULE
#ifdef USE_F08
      use, intrinsic :: iso_c_binding, only : c_ptr, c_f_pointer
#endif
      use checks
      implicit none
      MPI_INCLUDE
      integer :: calls = 0
      DATATYPE :: pair
      contains

#ifdef USE_F08
!     f(x) = a x + b: composition is associative, but not commutative.
      subroutine compose(invec, inoutvec, len, datatype)
      type(c_ptr), value :: invec, inoutvec
      integer :: len
      type(MPI_Datatype) :: datatype
      integer, pointer :: a(:, :), b(:, :)
      call c_f_pointer(invec, a, [2, len])
      call c_f_pointer(inoutvec, b, [2, len])
      call check(datatype == pair, 'the datatype')
      call composed(a, b, len)
      end subroutine compose

      subroutine larger(invec, inoutvec, len, datatype)
      type(c_ptr), value :: invec, inoutvec
      integer :: len
      type(MPI_Datatype) :: datatype
      double precision, pointer :: a(:), b(:)
      call check(datatype == MPI_DOUBLE_PRECISION, 'the datatype')
      call c_f_pointer(invec, a, [len])
      call c_f_pointer(inoutvec, b, [len])
      calls = calls + 1
      b = max(a, b)
      end subroutine larger

      subroutine larger_c(invec, inoutvec, len, datatype)
      type(c_ptr), value :: invec, inoutvec
      integer(MPI_COUNT_KIND) :: len
      type(MPI_Datatype) :: datatype
      double precision, pointer :: a(:), b(:)
      call check(datatype == MPI_DOUBLE_PRECISION, 'the datatype')
      call c_f_pointer(invec, a, [len])
      call c_f_pointer(inoutvec, b, [len])
      calls = calls + 1
      b = max(a, b)
      end subroutine larger_c
#else
      subroutine compose(invec, inoutvec, len, datatype)
      integer :: len, datatype
      integer :: invec(2, len), inoutvec(2, len)
      call check(datatype == pair, 'the datatype')
      call composed(invec, inoutvec, len)
      end subroutine compose

      subroutine larger(invec, inoutvec, len, datatype)
      integer :: len, datatype
      double precision :: invec(len), inoutvec(len)
      call check(datatype == MPI_DOUBLE_PRECISION, 'the datatype')
      calls = calls + 1
      inoutvec = max(invec, inoutvec)
      end subroutine larger
#endif

      subroutine composed(a, b, len)
      integer, intent(in) :: len
      integer, intent(in) :: a(2, len)
      integer, intent(inout) :: b(2, len)
      integer :: i
!     b after a.
      do i = 1, len
        b(2, i) = b(1, i) * a(2, i) + b(2, i)
        b(1, i) = b(1, i) * a(1, i)
      end do
      calls = calls + 1
      end subroutine composed
      end module callbacks

      program operations
      use checks
      use callbacks
      implicit none
      integer, parameter :: N = 37
      integer :: ierr, rank, ranks
      call MPI_Init(ierr)
      call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
      call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
      call in_order
      call commuting
#ifdef USE_F08
      call large
#endif
      call MPI_Finalize(ierr)
      contains

      subroutine in_order
      integer :: mine(2, N), all(2, N), wanted(2, N), r, i
      logical :: commutes
      OP :: op
      call MPI_Type_contiguous(2, MPI_INTEGER, pair, ierr)
      call MPI_Type_commit(pair, ierr)
      call MPI_Op_create(compose, .false., op, ierr)
      call check(ierr == 0, 'create')
      call MPI_Op_commutative(op, commutes, ierr)
      call check(.not. commutes, 'does not commute')
      do r = 0, ranks - 1
        do i = 1, N
          mine(:, i) = [mod(r + i, 3) + 1, r * i]
        end do
        if (r == 0) then
          wanted = mine
        else
          call composed(wanted, mine, N)
          wanted = mine
        end if
      end do
      do i = 1, N
        mine(:, i) = [mod(rank + i, 3) + 1, rank * i]
      end do
      all = -1
      call MPI_Allreduce(mine, all, N, pair, op, MPI_COMM_WORLD, ierr)
      call check(ierr == 0 .and. all(1, 1) == wanted(1, 1), 'allreduce')
      call check(sum(abs(all - wanted)) == 0, 'allreduce, all of it')
      all = -1
      call MPI_Reduce(mine, all, N, pair, op, ranks - 1, MPI_COMM_WORLD, &
     &  ierr)
      if (rank == ranks - 1) then
        call check(sum(abs(all - wanted)) == 0, 'reduce')
      end if
      call MPI_Op_free(op, ierr)
      call check(op == MPI_OP_NULL, 'freed')
      call MPI_Type_free(pair, ierr)
      end subroutine in_order

      subroutine commuting
      double precision :: mine(N), all(N), x(1), y(1)
      logical :: commutes
      integer :: i
      OP :: op, again
      call MPI_Op_create(larger, .true., op, ierr)
      call MPI_Op_commutative(op, commutes, ierr)
      call check(commutes, 'commutes')
      mine = [(mod(dble(i * (rank + 3)), 11d0), i = 1, N)]
      call MPI_Allreduce(mine, all, N, MPI_DOUBLE_PRECISION, op,         &
     &  MPI_COMM_WORLD, ierr)
      call MPI_Allreduce(MPI_IN_PLACE, mine, N, MPI_DOUBLE_PRECISION,    &
     &  MPI_MAX, MPI_COMM_WORLD, ierr)
      call check(maxval(abs(mine - all)) == 0, 'allreduce of doubles')
!     Applied here.
      x = 3
      y = 2
      calls = 0
      call MPI_Reduce_local(x, y, 1, MPI_DOUBLE_PRECISION, op, ierr)
      call check(calls == 1 .and. y(1) == 3, 'reduce_local')
      call MPI_Op_free(op, ierr)
      do i = 1, 2000
        call MPI_Op_create(larger, .true., again, ierr)
        call check(ierr == 0, 'one of many')
        call MPI_Op_free(again, ierr)
      end do
      end subroutine commuting

#ifdef USE_F08
      subroutine large
      double precision :: mine(N), all(N), x(1), y(1)
      type(MPI_Op) :: op
      integer(MPI_COUNT_KIND) :: count
      call MPI_Op_create_c(larger_c, .true., op, ierr)
      call check(ierr == 0, 'create with large counts')
      mine = rank
      count = N
      call MPI_Allreduce(mine, all, count, MPI_DOUBLE_PRECISION, op,     &
     &  MPI_COMM_WORLD, ierr)
      call check(minval(all) == ranks - 1, 'allreduce, large counts')
      x = 3
      y = 2
      calls = 0
      count = 1
      call MPI_Reduce_local(x, y, count, MPI_DOUBLE_PRECISION, op, ierr)
      call check(calls == 1 .and. y(1) == 3, 'reduce_local, large')
      call MPI_Op_free(op, ierr)
      end subroutine large
#endif
      end program operations
