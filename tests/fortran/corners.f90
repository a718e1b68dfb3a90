! What a reading of the library behind the modules found: arguments that are not significant, errors that are raised once and in the right place,
! requests that were never started.
module corners_handler
  use mpi_f08
  implicit none
  integer :: calls = 0
contains
  subroutine count_calls(comm, code)
    type(MPI_Comm) :: comm
    integer :: code
    calls = calls + 1
  end subroutine count_calls
end module corners_handler

program corners
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use corners_handler
  implicit none
  interface
    function mmap(address, length, protection, flags, file, offset) bind(c)
      import :: c_ptr, c_size_t, c_int, c_long
      type(c_ptr), value :: address
      integer(c_size_t), value :: length
      integer(c_int), value :: protection, flags, file
      integer(c_long), value :: offset
      type(c_ptr) :: mmap
    end function mmap
    integer(c_int) function mprotect(address, length, protection) bind(c)
      import :: c_intptr_t, c_size_t, c_int
      integer(c_intptr_t), value :: address
      integer(c_size_t), value :: length
      integer(c_int), value :: protection
    end function mprotect
  end interface
  type(MPI_Comm) :: comm
  type(MPI_Errhandler) :: errhandler
  integer :: ranks, error

  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_create_errhandler(count_calls, errhandler)
  call MPI_Comm_set_errhandler(comm, errhandler)
  call never_started()
  call not_significant()
  call errors_once()
  call long_values()
  call automatic_buffer()
  call MPI_Errhandler_free(errhandler)
  call MPI_Comm_free(comm)
  call MPI_Finalize()

contains

  ! A persistent operation on a section: waiting for it before its first start stores nothing.
  subroutine never_started()
    integer, asynchronous :: array(40), from(20)
    type(MPI_Request) :: request
    logical :: flag
    integer :: turn
    from = 1
    do turn = 1, 20
      array = -5
      call MPI_Allreduce_init(from, array(1:39:2), 20, MPI_INTEGER, MPI_SUM, comm, MPI_INFO_NULL, request)
      call MPI_Wait(request, MPI_STATUS_IGNORE)
      call MPI_Request_get_status(request, flag, MPI_STATUS_IGNORE)
      if (.not. flag .or. any(array /= -5)) error stop 'an operation that was never started has stored something'
      call MPI_Start(request)
      call MPI_Wait(request, MPI_STATUS_IGNORE)
      if (any(array(1:39:2) /= ranks) .or. any(array(2:40:2) /= -5)) error stop 'not the sums'
      call MPI_Request_free(request)
    end do
  end subroutine never_started

  ! With MPI_IN_PLACE nobody reads the types to send: one lies at the end of the memory that there is.
  subroutine not_significant()
    type(c_ptr) :: memory
    integer(c_intptr_t) :: address
    type(MPI_Datatype), pointer :: types(:)
    type(MPI_Datatype) :: integers(ranks)
    integer :: values(ranks), ones(ranks), displs(ranks), i
    integer, parameter :: page = 4096, read_write = 3, private_anonymous = 34
    memory = mmap(c_null_ptr, int(2 * page, c_size_t), read_write, private_anonymous, -1, 0_c_long)
    address = transfer(memory, address)
    if (mprotect(address + page, int(page, c_size_t), 0) /= 0) error stop 'mprotect'
    call c_f_pointer(transfer(address + page - 4, memory), types, [1])
    types(1) = MPI_DATATYPE_NULL
    integers = MPI_INTEGER
    ones = 1
    displs = [(4 * i, i = 0, ranks - 1)]
    values = 7
    call MPI_Alltoallw(MPI_IN_PLACE, ones, displs, types, values, ones, displs, integers, comm)
    if (any(values /= 7)) error stop 'alltoallw in place'
  end subroutine not_significant

  subroutine errors_once()
    type(MPI_Comm) :: none
    type(MPI_Datatype) :: bad
    integer :: array(6), class
    logical :: remain(3)
    remain = .true.
    calls = 0
    call MPI_Cart_sub(comm, remain, none, error)
    call MPI_Error_class(error, class)
    if (calls /= 1 .or. class /= MPI_ERR_TOPOLOGY) error stop 'MPI_Cart_sub without a topology'
    array = 0
    bad%MPI_VAL = 123456789
    calls = 0
    call MPI_Send(array(1:5:2), 1, bad, MPI_PROC_NULL, 0, comm, error)
    call MPI_Error_class(error, class)
    if (calls /= 1 .or. class /= MPI_ERR_TYPE) error stop 'a datatype that is none, and a section'
  end subroutine errors_once

  ! A length that is as large as can be.
  subroutine long_values()
    type(MPI_Info) :: info
    character(len=10) :: value
    integer :: length
    logical :: flag
    call MPI_Info_create(info)
    call MPI_Info_set(info, 'key', 'text')
    length = huge(length)
    call MPI_Info_get_string(info, 'key', length, value, flag)
    if (.not. flag .or. length /= 4 .or. value /= 'text') error stop 'MPI_Info_get_string'
    call MPI_Info_free(info)
  end subroutine long_values

  subroutine automatic_buffer()
    type(c_ptr) :: detached
    integer :: size
    call MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0)
    call MPI_Buffer_detach(detached, size)
    if (.not. c_associated(detached, c_loc(MPI_BUFFER_AUTOMATIC))) error stop 'not the automatic buffer'
  end subroutine automatic_buffer
end program corners
