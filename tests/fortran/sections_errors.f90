! Array sections that can't be used: the errors are raised where those of the call are. Any number of ranks.
program sections_errors
  use mpi_f08
  use, intrinsic :: iso_c_binding, only : c_ptr
  implicit none

  integer :: rank, ierror, calls = 0
  integer :: a(4, 10), b(4, 10)
  type(MPI_Errhandler) :: handler
  type(MPI_Request) :: request
  type(MPI_Datatype) :: pair, before
  type(MPI_Win) :: window
  type(MPI_File) :: file
  type(c_ptr) :: place
  character(len=200) :: folder
  integer(kind=MPI_COUNT_KIND) :: huge_count

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  call MPI_Type_contiguous(2, MPI_INTEGER, pair)
  call MPI_Type_commit(pair)
  call MPI_Type_create_hvector(2, 1, -8_MPI_ADDRESS_KIND, MPI_INTEGER, before)
  call MPI_Type_commit(before)
  a = 1

  call MPI_Send(a(2, :), 11, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, ierror)
  call expect(MPI_ERR_COUNT, "MPI_Send: the array section has fewer elements than the count says")
  call MPI_Isend(a(2:3, 1:5), 11, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, request, ierror)
  call expect(MPI_ERR_COUNT, "MPI_Isend: the array section has fewer elements than the count says")
  call MPI_Recv_init(b(2, :), 41, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, request, ierror)
  call expect(MPI_ERR_COUNT, "MPI_Recv_init: the array section has fewer elements than the count says")
  call MPI_Irecv(b(2, :), 6, pair, MPI_PROC_NULL, 1, MPI_COMM_WORLD, request, ierror)
  call expect(MPI_ERR_COUNT, "MPI_Irecv: the array section has fewer elements than the count says")
  call MPI_Recv(b(2, :), 1, before, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  call expect(MPI_ERR_BUFFER, "MPI_Recv: the datatype has items before the array section")
  huge_count = huge(huge_count)
  call MPI_Send(a(2, :), huge_count, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, ierror)
  call expect(MPI_ERR_COUNT, "MPI_Send: the array section has fewer elements than the count says")
  call MPI_Send(a(2, :), huge_count, pair, MPI_PROC_NULL, 1, MPI_COMM_WORLD, ierror)
  call expect(MPI_ERR_BUFFER, "MPI_Send: the datatype has items before the array section")

  ! Errors that C finds are C's.
  call MPI_Send(a(2, :), -1, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, ierror)
  call expect(MPI_ERR_COUNT, "")
  call MPI_Send(a(2, :), 1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 1, MPI_COMM_WORLD, ierror)
  call expect(MPI_ERR_TYPE, "")
  call MPI_Send(a(2, :), 1, MPI_INTEGER, 1000, 1, MPI_COMM_WORLD, ierror)
  call expect(MPI_ERR_RANK, "")

  ! Just enough is no error, also with an item that is not whole an element.
  call MPI_Send(a(2, :), 10, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, ierror)
  call expect(MPI_SUCCESS, "")
  call MPI_Send(a(2, :), 39, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, ierror)
  call expect(MPI_SUCCESS, "")

  ! What is no message, but memory.
  call MPI_Buffer_attach(a(2, :), 40, ierror)
  call expect(MPI_ERR_BUFFER, "MPI_Buffer_attach: the array section is not contiguous")
  call MPI_Comm_attach_buffer(MPI_COMM_WORLD, a(2, :), 40, ierror)
  call expect(MPI_ERR_BUFFER, "MPI_Comm_attach_buffer: the array section is not contiguous")
  call MPI_Win_create(a(2, :), 40_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_SELF, window, ierror)
  call expect(MPI_ERR_BUFFER, "MPI_Win_create: the array section is not contiguous")

  ! The handler of the communicator is called.
  call MPI_Comm_create_errhandler(count_calls, handler)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler)
  call MPI_Send(a(2, :), 11, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, ierror)
  if (calls /= 1) error stop "the error handler was not called once"
  call MPI_Errhandler_free(handler)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)

  ! Windows: there is nothing that tells when a copy would no more be used.
  call MPI_Win_allocate(4_MPI_ADDRESS_KIND * 40, 4, MPI_INFO_NULL, MPI_COMM_SELF, place, window)
  call MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN)
  call MPI_Put(a(2, :), 5, pair, 0, 0_MPI_ADDRESS_KIND, 5, pair, window, ierror)
  call expect(MPI_ERR_BUFFER, "MPI_Put: the array section is not contiguous")
  call MPI_Get(a(2, :), 11, MPI_INTEGER, 0, 0_MPI_ADDRESS_KIND, 11, MPI_INTEGER, window, ierror)
  call expect(MPI_ERR_COUNT, "MPI_Get: the array section has fewer elements than the count says")
  call MPI_Win_free(window)

  call get_environment_variable("WEFT_TEST_DIR", folder)
  if (folder == " ") folder = "/tmp"
  write (folder, '(2a,i0)') trim(folder), "/sections_errors.", rank
  call MPI_File_open(MPI_COMM_SELF, folder, ior(ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_MODE_DELETE_ON_CLOSE), &
      MPI_INFO_NULL, file)
  call MPI_File_write(file, a(2, :), 11, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
  call expect(MPI_ERR_COUNT, "MPI_File_write: the array section has fewer elements than the count says")
  call MPI_File_write_all_begin(file, a(2, :), 5, pair, ierror)
  call expect(MPI_ERR_BUFFER, "MPI_File_write_all_begin: the array section is not contiguous")
  call MPI_File_close(file)

  call MPI_Type_free(pair)
  call MPI_Type_free(before)
  call MPI_Finalize()

contains

  subroutine count_calls(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    integer :: class
    call MPI_Error_class(error_code, class)
    if (comm /= MPI_COMM_WORLD .or. class /= MPI_ERR_COUNT) error stop "the error handler was not called rightly"
    calls = calls + 1
  end subroutine count_calls

  subroutine expect(wanted, text)
    integer, intent(in) :: wanted
    character(len=*), intent(in) :: text
    character(len=MPI_MAX_ERROR_STRING) :: string
    integer :: class, length
    call MPI_Error_class(ierror, class)
    call MPI_Error_string(ierror, string, length)
    if (class /= wanted .or. index(string, text) == 0) then
      write (*, '(a,i0,3a,i0,2a)') "wrong: class ", class, ", ", string(1:length), "; expected: ", wanted, ", ", text
      error stop 1
    end if
  end subroutine expect
end program sections_errors
