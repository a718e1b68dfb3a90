! Processes that come and go: the lists of arguments that are Fortran's own, names of ports, and the parents' communicator.
#include "interface.h"
program spawning
  MPI_MODULE
  implicit none
  MPI_INCLUDE
  integer, parameter :: given = 1, none = 2, several = 3, several_without = 4
  character(len=1000) :: own
  COMM :: parent
  integer :: rank, ranks, root, ierror, class, code

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call MPI_Comm_get_parent(parent, ierror)
  if (parent /= MPI_COMM_NULL) then
    call be_child()
    call MPI_Finalize(ierror)
    stop
  end if
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierror)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierror)
  root = ranks - 1
  ! Only the root's arguments are read.
  own = '/no/such/program'
  if (rank == root) call get_command_argument(0, own)
  call with_arguments()
  call without_arguments()
  call several_commands()
  call several_commands_without_arguments()
  call no_such_program()
  call ports()
  call joining()
  call MPI_Comm_get_parent(parent, ierror)
  CHECK(parent == MPI_COMM_NULL)
  if (rank == 0) print '(a, i0, a)', 'spawning: ok with ', ranks, ' ranks'
  call MPI_Finalize(ierror)

contains
#include "check.inc"

  subroutine with_arguments()
    character(len=14) :: arguments(6)
    COMM :: children
    INFO :: info
    integer :: codes(2)
    ! Blanks at both ends are no part of an argument, and what stands behind a blank one is none.
    arguments = [character(len=14) :: 'first', '  d e  ', '-pf', ' just so long.', ' ', 'not this']
    call MPI_Info_create(info, ierror)
    call MPI_Info_set(info, 'soft', '0:9', ierror)
    if (rank /= root) arguments = 'x'
    codes = -1
    call MPI_Comm_spawn('   ' // own, arguments, merge(2, -1, rank == root), info, root, MPI_COMM_WORLD, children, codes, &
      ierror)
    CHECK(ierror == MPI_SUCCESS)
    CHECK(all(codes == MPI_SUCCESS))
    call MPI_Info_free(info, ierror)
    call work(children, given, 2)
  end subroutine with_arguments

  subroutine without_arguments()
    COMM :: children
    call MPI_Comm_spawn(own, MPI_ARGV_NULL, 1, MPI_INFO_NULL, root, MPI_COMM_WORLD, children, MPI_ERRCODES_IGNORE, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call work(children, none, 1)
  end subroutine without_arguments

  subroutine several_commands()
    character(len=1000) :: commands(2)
    character(len=9) :: arguments(2, 4)
    COMM :: children
    INFO :: infos(2)
    integer :: codes(3)
    commands = own
    ! argv(i, j) is argument j of command i.
    arguments(1, :) = [character(len=9) :: 'one', ' ', 'not this', 'nor this']
    arguments(2, :) = [character(len=9) :: ' two', 'a b', 'nine char', ' ']
    infos = MPI_INFO_NULL
    codes = -1
    call MPI_Comm_spawn_multiple(merge(2, -1, rank == root), commands, arguments, [1, 2], infos, root, MPI_COMM_WORLD, &
      children, codes, ierror)
    CHECK(ierror == MPI_SUCCESS)
    CHECK(all(codes == MPI_SUCCESS))
    call work(children, several, 3)
  end subroutine several_commands

  subroutine several_commands_without_arguments()
    character(len=1000) :: commands(2)
    COMM :: children
    INFO :: infos(2)
    commands = own
    infos = MPI_INFO_NULL
    call MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, [1, 1], infos, root, MPI_COMM_WORLD, children, &
      MPI_ERRCODES_IGNORE, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call work(children, several_without, 2)
  end subroutine several_commands_without_arguments

  ! The parents' side: what the children are to check, and a message to each of them, and back.
  subroutine work(children, what, number)
    COMM, intent(inout) :: children
    integer, intent(in) :: what, number
    integer :: size, child, answer, told
    call MPI_Comm_remote_size(children, size, ierror)
    CHECK(size == number)
    told = what
    call MPI_Bcast(told, 1, MPI_INTEGER, merge(MPI_ROOT, MPI_PROC_NULL, rank == 0), children, ierror)
    do child = 0, number - 1
      call MPI_Send(100 * rank + child, 1, MPI_INTEGER, child, 7, children, ierror)
      call MPI_Recv(answer, 1, MPI_INTEGER, child, 8, children, MPI_STATUS_IGNORE, ierror)
      CHECK(answer == 100 * rank + child + 1)
    end do
    call MPI_Comm_disconnect(children, ierror)
    CHECK(children == MPI_COMM_NULL)
  end subroutine work

  subroutine be_child()
    character(len=MPI_MAX_OBJECT_NAME) :: name
    integer(kind=MPI_ADDRESS_KIND) :: number
    integer :: length, what, parents, from, value
    logical :: flag
    call MPI_Comm_get_name(parent, name, length, ierror)
    CHECK(name == 'MPI_COMM_PARENT')
    call MPI_Bcast(what, 1, MPI_INTEGER, 0, parent, ierror)
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, number, flag, ierror)
    CHECK(flag)
    select case (what)
    case (given)
      CHECK(number == 0)
      CHECK(ranks == 2)
      call arguments_are([character(len=13) :: 'first', 'd e', '-pf', 'just so long.'])
    case (none)
      CHECK(number == 0)
      CHECK(command_argument_count() == 0)
    case (several)
      CHECK(number == merge(0, 1, rank == 0))
      if (number == 0) call arguments_are(['one'])
      if (number == 1) call arguments_are([character(len=9) :: 'two', 'a b', 'nine char'])
    case (several_without)
      CHECK(number == rank)
      CHECK(command_argument_count() == 0)
    case default
      CHECK(.false.)
    end select
    call MPI_Comm_remote_size(parent, parents, ierror)
    do from = 0, parents - 1
      call MPI_Recv(value, 1, MPI_INTEGER, from, 7, parent, MPI_STATUS_IGNORE, ierror)
      CHECK(value == 100 * from + rank)
      call MPI_Send(value + 1, 1, MPI_INTEGER, from, 8, parent, ierror)
    end do
    call MPI_Comm_disconnect(parent, ierror)
    CHECK(parent == MPI_COMM_NULL)
    call MPI_Comm_get_parent(parent, ierror)
    CHECK(parent == MPI_COMM_NULL)
  end subroutine be_child

  subroutine arguments_are(expected)
    character(len=*), intent(in) :: expected(:)
    character(len=100) :: argument
    integer :: at, length
    CHECK(command_argument_count() == size(expected))
    do at = 1, size(expected)
      call get_command_argument(at, argument, length)
      CHECK(argument == expected(at))
      CHECK(length == len_trim(expected(at)))
    end do
  end subroutine arguments_are

  subroutine no_such_program()
    COMM :: children
    integer :: codes(3), at
    codes = MPI_SUCCESS
    call MPI_Comm_spawn('/no/such/program', MPI_ARGV_NULL, merge(3, 0, rank == root), MPI_INFO_NULL, root, MPI_COMM_WORLD, &
      children, codes, ierror)
    call MPI_Error_class(ierror, class, code)
    CHECK(class == MPI_ERR_SPAWN)
    do at = 1, 3
      call MPI_Error_class(codes(at), class, code)
      CHECK(class == MPI_ERR_SPAWN)
    end do
    ! A blank command is none.
    call MPI_Comm_spawn('  ', MPI_ARGV_NULL, 1, MPI_INFO_NULL, root, MPI_COMM_WORLD, children, MPI_ERRCODES_IGNORE, ierror)
    call MPI_Error_class(ierror, class, code)
    CHECK(class == MPI_ERR_ARG)
  end subroutine no_such_program

  subroutine ports()
    character(len=*), parameter :: service = '  a name with blanks  '
    character(len=MPI_MAX_PORT_NAME) :: port, found
    COMM :: part, inter
    integer :: size, mine, theirs
    port = repeat('x', len(port))
    if (rank == 0) then
      call MPI_Open_port(MPI_INFO_NULL, port, ierror)
      CHECK(ierror == MPI_SUCCESS .and. len_trim(port) > 0 .and. index(port, 'x') /= 1)
      call MPI_Publish_name(service, MPI_INFO_NULL, port, ierror)
      CHECK(ierror == MPI_SUCCESS)
    end if
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    found = repeat('y', len(found))
    call MPI_Lookup_name(service, MPI_INFO_NULL, found, ierror)
    CHECK(ierror == MPI_SUCCESS)
    if (rank == 0) then
      CHECK(found == port)
    end if
    call MPI_Comm_split(MPI_COMM_WORLD, merge(0, 1, rank == 0), rank, part, ierror)
    if (ranks > 1) then
      ! Only the roots' names are read.
      if (rank == 0) then
        call MPI_Comm_accept(port, MPI_INFO_NULL, 0, part, inter, ierror)
      else if (rank == ranks - 1) then
        call MPI_Comm_connect(found, MPI_INFO_NULL, ranks - 2, part, inter, ierror)
      else
        call MPI_Comm_connect('nothing', MPI_INFO_NULL, ranks - 2, part, inter, ierror)
      end if
      CHECK(ierror == MPI_SUCCESS)
      call MPI_Comm_remote_size(inter, size, ierror)
      CHECK(size == merge(ranks - 1, 1, rank == 0))
      mine = merge(0, 1, rank == 0)
      theirs = -1
      call MPI_Allreduce(mine, theirs, 1, MPI_INTEGER, MPI_SUM, inter, ierror)
      CHECK(theirs == merge(ranks - 1, 0, rank == 0))
      call MPI_Comm_disconnect(inter, ierror)
      CHECK(inter == MPI_COMM_NULL)
    end if
    call MPI_Comm_free(part, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    if (rank == 0) then
      call MPI_Unpublish_name(service, MPI_INFO_NULL, port, ierror)
      CHECK(ierror == MPI_SUCCESS)
      call MPI_Lookup_name(service, MPI_INFO_NULL, found, ierror)
      call MPI_Error_class(ierror, class, code)
      CHECK(class == MPI_ERR_NAME)
      call MPI_Close_port(port, ierror)
      CHECK(ierror == MPI_SUCCESS)
      call MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, inter, ierror)
      call MPI_Error_class(ierror, class, code)
      CHECK(class == MPI_ERR_PORT)
    end if
  end subroutine ports

  subroutine joining()
    COMM :: inter
    call MPI_Comm_join(-1, inter, ierror)
    call MPI_Error_class(ierror, class, code)
    CHECK(class == MPI_ERR_ARG)
  end subroutine joining
end program spawning
