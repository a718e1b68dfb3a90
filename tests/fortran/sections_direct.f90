! The procedures that get the compiler's own descriptors (MPI_Sendrecv_f08ts of section 19.1.5, which is not BIND(C)), called by name.
! Any number of ranks.
program sections_direct
  use mpi_f08, only : MPI_Init, MPI_Finalize, MPI_Comm_rank, MPI_Comm_size, MPI_COMM_WORLD, MPI_INTEGER, MPI_CHARACTER, &
      MPI_STATUS_IGNORE, MPI_BOTTOM, MPI_PROC_NULL
  implicit none

  interface
    subroutine MPI_Sendrecv_f08ts(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag, &
        comm, status, ierror)
      use mpi_f08, only : MPI_Datatype, MPI_Comm, MPI_Status
      type(*), dimension(..), intent(in) :: sendbuf
      type(*), dimension(..) :: recvbuf
      integer, intent(in) :: sendcount, dest, sendtag, recvcount, source, recvtag
      type(MPI_Datatype), intent(in) :: sendtype, recvtype
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Status) :: status
      integer, optional, intent(out) :: ierror
    end subroutine MPI_Sendrecv_f08ts
    subroutine PMPI_Send_f08ts(buf, count, datatype, dest, tag, comm, ierror)
      use mpi_f08, only : MPI_Datatype, MPI_Comm
      type(*), dimension(..), intent(in) :: buf
      integer, intent(in) :: count, dest, tag
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Comm), intent(in) :: comm
      integer, optional, intent(out) :: ierror
    end subroutine PMPI_Send_f08ts
  end interface

  type :: item
    integer :: number
    character(len=3) :: text
  end type item

  integer :: rank, ranks, left, right, i, ierror
  integer :: a(6, 7), b(6, 7), c(8)
  type(item) :: items(9), others(9)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  right = mod(rank + 1, ranks)
  left = mod(rank - 1 + ranks, ranks)
  a = reshape([(100 * rank + i, i = 1, 42)], [6, 7])
  b = -1
  call MPI_Sendrecv_f08ts(a, 42, MPI_INTEGER, right, 1, b, 42, MPI_INTEGER, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  if (any(b /= a + 100 * (left - rank))) error stop "whole arrays"
  b = -1
  call MPI_Sendrecv_f08ts(a(1:6:2, 2:7), 18, MPI_INTEGER, right, 1, b(6:1:-2, 7:2:-1), 18, MPI_INTEGER, left, 1, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  if (any(b(6:1:-2, 7:2:-1) /= a(1:6:2, 2:7) + 100 * (left - rank)) .or. count(b == -1) /= 24) error stop "sections"
  do i = 1, 9
    items(i)%number = 10 * rank + i
    write (items(i)%text, '(i3)') 10 * rank + i
    others(i) = item(-1, "...")
  end do
  call MPI_Sendrecv_f08ts(items%number, 9, MPI_INTEGER, right, 1, others(9:1:-1)%number, 9, MPI_INTEGER, left, 1, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  if (any(others(9:1:-1)%number /= items%number + 10 * (left - rank))) error stop "components"
  if (any(others%text /= "...")) error stop "beside components"
  call MPI_Sendrecv_f08ts(items(1:9:2)%text, 15, MPI_CHARACTER, right, 1, others(1:9:2)%text, 15, MPI_CHARACTER, left, 1, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  do i = 1, 9, 2
    read (others(i)%text, *) ierror
    if (ierror /= 10 * left + i) error stop "texts"
  end do
  call unknown(c)
  if (any(c /= left)) error stop "arrays of unknown size"
  call MPI_Sendrecv_f08ts(rank, 1, MPI_INTEGER, right, 1, i, 1, MPI_INTEGER, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  if (i /= left) error stop "scalars"
  call PMPI_Send_f08ts(MPI_BOTTOM, 0, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD)
  call PMPI_Send_f08ts(a(2, :), 7, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD)
  call MPI_Finalize()

contains

  subroutine unknown(x)
    integer :: x(2, *), mine(8)
    mine = rank
    call MPI_Sendrecv_f08ts(mine, 8, MPI_INTEGER, right, 1, x, 8, MPI_INTEGER, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end subroutine unknown
end program sections_direct
