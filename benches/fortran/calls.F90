! What calls that do next to nothing cost from Fortran, above the same calls from C: nanoseconds, of many rounds in turn.
#include "../../tests/fortran/interface.h"
program calls
  use, intrinsic :: iso_c_binding, only : c_int
  MPI_MODULE
  implicit none
  MPI_INCLUDE
  interface
    subroutine in_c(what, times) bind(c)
      import :: c_int
      integer(c_int), value :: what, times
    end subroutine in_c
  end interface
  integer, parameter :: rounds = 31, times = 20000
  character(len=16), parameter :: names(5) = [character(len=16) :: 'Comm_rank', 'Send', 'Recv', 'Isend + Wait', 'Initialized']
  double precision :: fortran(rounds), c(rounds), begin
  integer :: ierror, round, what

  call MPI_Init(ierror)
  do what = 1, 5
    do round = 1, rounds
      begin = MPI_Wtime()
      call in_c(what, times)
      c(round) = MPI_Wtime() - begin
      begin = MPI_Wtime()
      call in_fortran(what)
      fortran(round) = MPI_Wtime() - begin
    end do
    print '(a, 4(f8.1))', names(what), nanoseconds(c), nanoseconds(fortran), nanoseconds(fortran) - nanoseconds(c), &
      1.0d9 * (minval(fortran) - minval(c)) / times
  end do
  call MPI_Finalize(ierror)

contains

  subroutine in_fortran(what)
    integer, intent(in) :: what
    integer :: i, rank, value
    logical :: flag
    REQUEST :: request
    value = 0
    do i = 1, times
      select case (what)
      case (1)
        call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
      case (2)
        call MPI_Send(value, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, ierror)
      case (3)
        call MPI_Recv(value, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
      case (4)
        call MPI_Isend(value, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, request, ierror)
        call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
      case (5)
        call MPI_Initialized(flag, ierror)
      end select
    end do
  end subroutine in_fortran

  ! The median for one call.
  double precision function nanoseconds(seconds)
    double precision, intent(in) :: seconds(rounds)
    integer :: i
    do i = 1, rounds
      if (count(seconds < seconds(i)) <= rounds / 2 .and. count(seconds <= seconds(i)) > rounds / 2) then
        nanoseconds = 1.0d9 * seconds(i) / times
        return
      end if
    end do
  end function nanoseconds
end program calls
