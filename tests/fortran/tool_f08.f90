! A tool in Fortran for programs that use mpi_f08 (MPI 5.0, section 19.1.5): it counts calls, and looks at the buffers of each. Linked into
! tool_program.f90, or as a shared library loaded before it: then it writes what it has seen when MPI is finalized.
module tool_counts
  implicit none
  integer, save :: sends = 0, large_sends = 0, isends = 0, irecvs = 0, bcasts = 0, sections = 0, elements = 0, ranks_of_arrays = 0
  integer, save :: sizes = 0, packs = 0

contains

  subroutine look(buf)
    type(*), dimension(..), intent(in) :: buf
    ranks_of_arrays = ranks_of_arrays + rank(buf)
    if (rank(buf) == 0) return
    if (.not. is_contiguous(buf)) sections = sections + 1
    ! Not where the size is not known.
    if (size(buf) > 0) elements = elements + size(buf)
  end subroutine look
end module tool_counts

subroutine MPI_Send_f08ts(buf, count, datatype, dest, tag, comm, ierror)
  use mpi_f08, only : MPI_Datatype, MPI_Comm, PMPI_Send
  use tool_counts
  implicit none
  type(*), dimension(..), intent(in) :: buf
  integer, intent(in) :: count, dest, tag
  type(MPI_Datatype), intent(in) :: datatype
  type(MPI_Comm), intent(in) :: comm
  integer, optional, intent(out) :: ierror
  sends = sends + 1
  call look(buf)
  call PMPI_Send(buf, count, datatype, dest, tag, comm, ierror)
end subroutine MPI_Send_f08ts

subroutine MPI_Send_c_f08ts(buf, count, datatype, dest, tag, comm, ierror)
  use mpi_f08, only : MPI_Datatype, MPI_Comm, PMPI_Send, MPI_COUNT_KIND
  use tool_counts
  implicit none
  type(*), dimension(..), intent(in) :: buf
  integer(kind=MPI_COUNT_KIND), intent(in) :: count
  integer, intent(in) :: dest, tag
  type(MPI_Datatype), intent(in) :: datatype
  type(MPI_Comm), intent(in) :: comm
  integer, optional, intent(out) :: ierror
  large_sends = large_sends + 1
  call look(buf)
  call PMPI_Send(buf, count, datatype, dest, tag, comm, ierror)
end subroutine MPI_Send_c_f08ts

subroutine MPI_Isend_f08ts(buf, count, datatype, dest, tag, comm, request, ierror)
  use mpi_f08, only : MPI_Datatype, MPI_Comm, MPI_Request, PMPI_Isend
  use tool_counts
  implicit none
  type(*), dimension(..), intent(in), asynchronous :: buf
  integer, intent(in) :: count, dest, tag
  type(MPI_Datatype), intent(in) :: datatype
  type(MPI_Comm), intent(in) :: comm
  type(MPI_Request), intent(out) :: request
  integer, optional, intent(out) :: ierror
  isends = isends + 1
  call look(buf)
  call PMPI_Isend(buf, count, datatype, dest, tag, comm, request, ierror)
end subroutine MPI_Isend_f08ts

subroutine MPI_Irecv_f08ts(buf, count, datatype, source, tag, comm, request, ierror)
  use mpi_f08, only : MPI_Datatype, MPI_Comm, MPI_Request, PMPI_Irecv
  use tool_counts
  implicit none
  type(*), dimension(..), asynchronous :: buf
  integer, intent(in) :: count, source, tag
  type(MPI_Datatype), intent(in) :: datatype
  type(MPI_Comm), intent(in) :: comm
  type(MPI_Request), intent(out) :: request
  integer, optional, intent(out) :: ierror
  irecvs = irecvs + 1
  call look(buf)
  call PMPI_Irecv(buf, count, datatype, source, tag, comm, request, ierror)
end subroutine MPI_Irecv_f08ts

subroutine MPI_Bcast_f08ts(buffer, count, datatype, root, comm, ierror)
  use mpi_f08, only : MPI_Datatype, MPI_Comm, PMPI_Bcast
  use tool_counts
  implicit none
  type(*), dimension(..) :: buffer
  integer, intent(in) :: count, root
  type(MPI_Datatype), intent(in) :: datatype
  type(MPI_Comm), intent(in) :: comm
  integer, optional, intent(out) :: ierror
  bcasts = bcasts + 1
  call look(buffer)
  call PMPI_Bcast(buffer, count, datatype, root, comm, ierror)
end subroutine MPI_Bcast_f08ts

subroutine MPI_Pack_external_f08ts(datarep, inbuf, incount, datatype, outbuf, outsize, position, ierror)
  use mpi_f08, only : MPI_Datatype, PMPI_Pack_external, MPI_ADDRESS_KIND
  use tool_counts
  implicit none
  character(len=*), intent(in) :: datarep
  type(*), dimension(..), intent(in) :: inbuf
  type(*), dimension(..) :: outbuf
  integer, intent(in) :: incount
  type(MPI_Datatype), intent(in) :: datatype
  integer(kind=MPI_ADDRESS_KIND), intent(in) :: outsize
  integer(kind=MPI_ADDRESS_KIND), intent(inout) :: position
  integer, optional, intent(out) :: ierror
  if (datarep /= "external32") error stop "another data representation"
  packs = packs + 1
  call PMPI_Pack_external(datarep, inbuf, incount, datatype, outbuf, outsize, position, ierror)
end subroutine MPI_Pack_external_f08ts

subroutine MPI_Comm_size_f08(comm, size, ierror)
  use mpi_f08, only : MPI_Comm, PMPI_Comm_size
  use tool_counts, only : sizes
  implicit none
  type(MPI_Comm), intent(in) :: comm
  integer, intent(out) :: size
  integer, optional, intent(out) :: ierror
  sizes = sizes + 1
  call PMPI_Comm_size(comm, size, ierror)
end subroutine MPI_Comm_size_f08

subroutine MPI_Finalize_f08(ierror)
  use mpi_f08, only : PMPI_Finalize
  use tool_counts
  implicit none
  integer, optional, intent(out) :: ierror
  write (*, '(a,10(1x,i0))') "the tool has seen", sends, large_sends, isends, irecvs, bcasts, packs, sizes, &
      sections, elements, ranks_of_arrays
  if (sends /= 4 .or. large_sends /= 1 .or. isends /= 5 .or. irecvs /= 5 .or. bcasts /= 3) error stop "the tool has not seen all"
  if (packs /= 1 .or. sizes /= 1) error stop "the tool has not seen all"
  if (sections /= 10 .or. elements /= 364 .or. ranks_of_arrays /= 19) error stop "the tool has seen other buffers"
  call PMPI_Finalize(ierror)
end subroutine MPI_Finalize_f08
