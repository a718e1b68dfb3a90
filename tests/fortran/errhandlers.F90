!     Error handlers of Fortran's: of communicators, windows, files and
!     sessions; who called them, and with which code.
#include "interface.h"
#include "checks.inc"
      module callbacks
      MPI_MODULE
      use checks
      implicit none
      MPI_INCLUDE
      integer :: comms = 0, others = 0, wins = 0, files = 0
      integer :: sessions = 0, last_code = 0
      COMM :: last_comm
      WINDOW :: last_win
      FILE_HANDLE :: last_file
      SESSION :: last_session
      contains

      subroutine on_comm(comm, code)
      COMM :: comm
      integer :: code
      integer :: ierr, length
      character(len=MPI_MAX_ERROR_STRING) :: text
      comms = comms + 1
      last_comm = comm
      last_code = code
      call MPI_Error_string(code, text, length, ierr)
      call check(ierr == 0 .and. length > 0, 'text of an error')
      end subroutine on_comm

      subroutine on_comm_too(comm, code)
      COMM :: comm
      integer :: code
      others = others + 1
      last_comm = comm
      last_code = code
      end subroutine on_comm_too

      subroutine on_win(win, code)
      WINDOW :: win
      integer :: code
      wins = wins + 1
      last_win = win
      last_code = code
      end subroutine on_win

      subroutine on_file(file, code)
      FILE_HANDLE :: file
      integer :: code
      files = files + 1
      last_file = file
      last_code = code
      end subroutine on_file

      subroutine on_session(session, code)
      SESSION :: session
      integer :: code
      sessions = sessions + 1
      last_session = session
      last_code = code
      end subroutine on_session
      end module callbacks

      program errhandlers
      use checks
      use callbacks
      implicit none
      integer :: ierr
      call MPI_Init(ierr)
      call of_communicators
      call of_windows
      call of_files
      call of_sessions
      call many
      call MPI_Finalize(ierr)
      contains

      integer function class_of(code) result(class)
      integer, intent(in) :: code
      integer :: status
      call MPI_Error_class(code, class, status)
      end function class_of

      subroutine of_communicators
      COMM :: comm, dup
      ERRHANDLER :: first, second, got
      integer :: buffer(1)
      call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
      call MPI_Comm_create_errhandler(on_comm, first, ierr)
      call check(ierr == 0, 'create')
      call MPI_Comm_create_errhandler(on_comm_too, second, ierr)
      call MPI_Comm_set_errhandler(comm, first, ierr)
      call check(ierr == 0, 'set')
      buffer = 0
      call MPI_Send(buffer, 1, MPI_INTEGER, 10000, 1, comm, ierr)
      call check(class_of(ierr) == MPI_ERR_RANK, 'class')
      call check(comms == 1 .and. last_comm == comm, 'called')
      call check(class_of(last_code) == MPI_ERR_RANK, 'its code')
      call MPI_Comm_get_errhandler(comm, got, ierr)
      call check(got == first, 'get')
      call MPI_Errhandler_free(got, ierr)
!     A copy has it as well; another may be set there.
      call MPI_Comm_dup(comm, dup, ierr)
      call MPI_Comm_call_errhandler(dup, MPI_ERR_TOPOLOGY, ierr)
      call check(comms == 2 .and. last_comm == dup, 'copied')
      call check(last_code == MPI_ERR_TOPOLOGY, 'the code of a call')
      call MPI_Comm_set_errhandler(dup, second, ierr)
      call MPI_Errhandler_free(first, ierr)
      call check(first == MPI_ERRHANDLER_NULL, 'freed')
      call MPI_Errhandler_free(second, ierr)
      call MPI_Comm_call_errhandler(dup, MPI_ERR_TAG, ierr)
      call check(others == 1 .and. comms == 2, 'the other one')
      call check(last_comm == dup, 'the communicator of the other one')
      call MPI_Comm_call_errhandler(comm, MPI_ERR_TAG, ierr)
      call check(others == 1 .and. comms == 3, 'the first one again')
!     Predefined ones are the same in all languages.
      call MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN, ierr)
      call MPI_Comm_get_errhandler(dup, got, ierr)
      call check(got == MPI_ERRORS_RETURN, 'MPI_ERRORS_RETURN')
      call MPI_Send(buffer, 1, MPI_INTEGER, 10000, 1, dup, ierr)
      call check(class_of(ierr) == MPI_ERR_RANK, 'returned')
      call MPI_Comm_get_errhandler(MPI_COMM_WORLD, got, ierr)
      call check(got == MPI_ERRORS_ARE_FATAL, 'ERRORS_ARE_FATAL')
      call check(comms == 3 .and. others == 1, 'no more calls')
      call MPI_Comm_free(comm, ierr)
      call MPI_Comm_free(dup, ierr)
      end subroutine of_communicators

      subroutine of_windows
      WINDOW :: win
      ERRHANDLER :: handler, got
      integer, asynchronous, target :: memory(4)
      integer(MPI_ADDRESS_KIND) :: size
      size = 16
      call MPI_Win_create(memory, size, 4, MPI_INFO_NULL,                &
     &  MPI_COMM_WORLD, win, ierr)
      call MPI_Win_create_errhandler(on_win, handler, ierr)
      call MPI_Win_set_errhandler(win, handler, ierr)
      call MPI_Win_get_errhandler(win, got, ierr)
      call check(got == handler, 'get of a window')
      call MPI_Win_call_errhandler(win, MPI_ERR_RMA_RANGE, ierr)
      call check(wins == 1 .and. last_win == win, 'window')
      call check(last_code == MPI_ERR_RMA_RANGE, 'code of a window')
      call MPI_Win_unlock(10000, win, ierr)
      call check(ierr /= 0 .and. wins == 2, 'an error of a window')
      call check(last_code == ierr, 'the same code')
      call MPI_Errhandler_free(handler, ierr)
      call MPI_Errhandler_free(got, ierr)
      call MPI_Win_free(win, ierr)
      call check(ierr == 0, 'free a window')
      end subroutine of_windows

      subroutine of_files
      FILE_HANDLE :: file, none
      ERRHANDLER :: handler, got
      call MPI_File_create_errhandler(on_file, handler, ierr)
      none = MPI_FILE_NULL
!     Errors of opening go to the handler of MPI_FILE_NULL.
      call MPI_File_set_errhandler(none, handler, ierr)
      call check(ierr == 0, 'set of MPI_FILE_NULL')
      call MPI_File_get_errhandler(none, got, ierr)
      call check(got == handler, 'get of MPI_FILE_NULL')
      call MPI_File_open(MPI_COMM_SELF, '/nowhere/at/all',               &
     &  MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
      call check(ierr /= 0 .and. files == 1, 'an error of a file')
      call check(last_file == MPI_FILE_NULL, 'the file')
      call check(last_code == ierr, 'code of a file')
      call MPI_File_call_errhandler(none, MPI_ERR_AMODE, ierr)
      call check(files == 2 .and. last_code == MPI_ERR_AMODE, 'called')
      call MPI_Errhandler_free(handler, ierr)
      call MPI_Errhandler_free(got, ierr)
      end subroutine of_files

      subroutine of_sessions
      SESSION :: session
      ERRHANDLER :: handler, got
      integer :: n
      call MPI_Session_create_errhandler(on_session, handler, ierr)
      call MPI_Session_init(MPI_INFO_NULL, handler, session, ierr)
      call check(ierr == 0, 'session')
      call MPI_Session_get_errhandler(session, got, ierr)
      call check(got == handler, 'get of a session')
      call MPI_Session_call_errhandler(session, MPI_ERR_ARG, ierr)
      call check(sessions == 1 .and. last_session == session, 'called')
      call check(last_code == MPI_ERR_ARG, 'code of a session')
      call MPI_Session_get_num_psets(session, MPI_INFO_NULL, n, ierr)
      call check(ierr == 0 .and. sessions == 1, 'no error')
      call MPI_Errhandler_free(handler, ierr)
      call MPI_Errhandler_free(got, ierr)
      call MPI_Session_finalize(session, ierr)
      call check(ierr == 0 .and. sessions == 1, 'end of the session')
      end subroutine of_sessions

!     One procedure needs one place, however often it is passed.
      subroutine many
      ERRHANDLER :: handler
      integer :: i
      do i = 1, 2000
        call MPI_Comm_create_errhandler(on_comm, handler, ierr)
        call check(ierr == 0, 'one of many')
        call MPI_Errhandler_free(handler, ierr)
      end do
      end subroutine many
      end program errhandlers
