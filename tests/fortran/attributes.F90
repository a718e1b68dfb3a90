!     Attributes: keys and values of Fortran's, on communicators,
!     datatypes and windows; predefined attributes; errors of callbacks.
#include "interface.h"
#include "checks.inc"
      module callbacks
      MPI_MODULE
      use checks
      implicit none
      MPI_INCLUDE
      integer, parameter :: A = MPI_ADDRESS_KIND
      integer(A), parameter :: BIG = 2_A ** 40
!     What the callbacks saw last, and how often they were called.
      integer :: copies = 0, deletions = 0, last_keyval = 0
      integer(A) :: last_value = 0, last_state = 0
!     What the callbacks return.
      integer :: answer = MPI_SUCCESS
      logical :: copied = .true.
      contains

      subroutine comm_copy(comm, keyval, state, old, new, flag, ierr)
      COMM :: comm
      integer :: keyval, ierr
      integer(A) :: state, old, new
      logical :: flag
      integer :: rank, size
!     A callback may call MPI.
      call MPI_Comm_rank(comm, rank, ierr)
      call MPI_Comm_size(comm, size, ierr)
      call check(ierr == 0 .and. rank < size, 'rank in a callback')
      copies = copies + 1
      last_keyval = keyval
      last_value = old
      last_state = state
      new = old + 1
      flag = copied
      ierr = answer
      end subroutine comm_copy

      subroutine comm_delete(comm, keyval, value, state, ierr)
      COMM :: comm
      integer :: keyval, ierr
      integer(A) :: value, state
      integer :: size
      call MPI_Comm_size(comm, size, ierr)
      call check(ierr == 0 .and. size > 0, 'size in a callback')
      deletions = deletions + 1
      last_keyval = keyval
      last_value = value
      last_state = state
      ierr = answer
      end subroutine comm_delete

      subroutine type_copy(type, keyval, state, old, new, flag, ierr)
      DATATYPE :: type
      integer :: keyval, ierr
      integer(A) :: state, old, new
      logical :: flag
      integer :: size
      call MPI_Type_size(type, size, ierr)
      call check(size == 12, 'the datatype in a callback')
      copies = copies + 1
      last_keyval = keyval
      last_value = old
      last_state = state
      new = -old
      flag = copied
      ierr = answer
      end subroutine type_copy

      subroutine type_delete(type, keyval, value, state, ierr)
      DATATYPE :: type
      integer :: keyval, ierr
      integer(A) :: value, state
      deletions = deletions + 1
      last_keyval = keyval
      last_value = value
      last_state = state
      ierr = answer
      end subroutine type_delete

      subroutine win_copy(win, keyval, state, old, new, flag, ierr)
      WINDOW :: win
      integer :: keyval, ierr
      integer(A) :: state, old, new
      logical :: flag
      new = old
      flag = .true.
      ierr = MPI_SUCCESS
      end subroutine win_copy

      subroutine win_delete(win, keyval, value, state, ierr)
      WINDOW :: win
      integer :: keyval, ierr
      integer(A) :: value, state
      deletions = deletions + 1
      last_keyval = keyval
      last_value = value
      last_state = state
      ierr = answer
      end subroutine win_delete

!     The deprecated ones.
      subroutine old_copy(comm, keyval, state, old, new, flag, ierr)
      integer :: comm, keyval, state, old, new, ierr
      logical :: flag
      copies = copies + 1
      last_keyval = keyval
      last_value = old
      last_state = state
      new = old + 1
      flag = copied
      ierr = answer
      end subroutine old_copy

      subroutine old_delete(comm, keyval, value, state, ierr)
      integer :: comm, keyval, value, state, ierr
      deletions = deletions + 1
      last_keyval = keyval
      last_value = value
      last_state = state
      ierr = answer
      end subroutine old_delete
      end module callbacks

      program attributes
      use checks
      use callbacks
      implicit none
      integer :: ierr
      call MPI_Init(ierr)
      call of_communicators
      call of_datatypes
      call of_windows
      call predefined
      call many
      call direct
#ifndef USE_F08
      call deprecated
#endif
      call MPI_Finalize(ierr)
      call check(ierr == MPI_SUCCESS, 'finalize')
      contains

      subroutine of_communicators
      integer :: key, key2, key3, was, class
      integer(A) :: value
      logical :: flag
      COMM :: comm, dup, dup2
      call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
      call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, ierr)
      call MPI_Comm_create_keyval(comm_copy, comm_delete, key, BIG + 5,  &
     &  ierr)
      call check(ierr == 0, 'create a key')
      call MPI_Comm_get_attr(comm, key, value, flag, ierr)
      call check(ierr == 0 .and. .not. flag, 'nothing there')
      call MPI_Comm_set_attr(comm, key, BIG + 7, ierr)
      call check(ierr == 0, 'set')
      call MPI_Comm_get_attr(comm, key, value, flag, ierr)
      call check(flag .and. value == BIG + 7, 'get')
!     Copied, with the callback's value.
      call MPI_Comm_dup(comm, dup, ierr)
      call check(ierr == 0 .and. copies == 1, 'copied')
      call check(last_keyval == key, 'key of the copy')
      call check(last_value == BIG + 7, 'value of the copy')
      call check(last_state == BIG + 5, 'state of the copy')
      call MPI_Comm_get_attr(dup, key, value, flag, ierr)
      call check(flag .and. value == BIG + 8, 'get the copy')
!     Replaced: the old value is deleted.
      call MPI_Comm_set_attr(dup, key, -3_A, ierr)
      call check(deletions == 1 .and. last_value == BIG + 8, 'replaced')
      call MPI_Comm_get_attr(dup, key, value, flag, ierr)
      call check(flag .and. value == -3, 'get what replaced')
      call MPI_Comm_get_attr(comm, key, value, flag, ierr)
      call check(flag .and. value == BIG + 7, 'the other stays')
!     The callback says: no copy.
      copied = .false.
      call MPI_Comm_dup(comm, dup2, ierr)
      call MPI_Comm_get_attr(dup2, key, value, flag, ierr)
      call check(ierr == 0 .and. .not. flag, 'no copy')
      call MPI_Comm_free(dup2, ierr)
      copied = .true.
!     The callback returns an error, which goes through.
      answer = MPI_ERR_OTHER
      call MPI_Comm_dup(comm, dup2, ierr)
      call check(ierr /= MPI_SUCCESS, 'the copy fails')
      call MPI_Error_class(ierr, class, was)
      call check(class == MPI_ERR_OTHER, 'class of the copy''s error')
      call MPI_Comm_delete_attr(comm, key, ierr)
      call check(ierr /= MPI_SUCCESS, 'the deletion fails')
      call MPI_Comm_set_attr(comm, key, 9_A, ierr)
      call check(ierr /= MPI_SUCCESS, 'replacing fails')
      answer = MPI_SUCCESS
      call MPI_Comm_get_attr(comm, key, value, flag, ierr)
      call check(flag .and. value == BIG + 7, 'what was not deleted')
      was = deletions
      call MPI_Comm_delete_attr(comm, key, ierr)
      call check(ierr == 0 .and. deletions == was + 1, 'deleted')
      call check(last_state == BIG + 5, 'state of the deletion')
      call MPI_Comm_get_attr(comm, key, value, flag, ierr)
      call check(ierr == 0 .and. .not. flag, 'gone')
      call MPI_Comm_free(dup, ierr)
      call check(ierr == 0 .and. last_value == -3, 'deleted at free')
      call check(deletions == was + 2, 'deleted once at free')
!     Predefined callbacks.
      call MPI_Comm_create_keyval(MPI_COMM_DUP_FN,                       &
     &  MPI_COMM_NULL_DELETE_FN, key2, 0_A, ierr)
      call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, comm_delete,    &
     &  key3, 1_A, ierr)
      call MPI_Comm_set_attr(comm, key2, BIG, ierr)
      call MPI_Comm_set_attr(comm, key3, 4_A, ierr)
      call MPI_Comm_dup(comm, dup, ierr)
      call MPI_Comm_set_attr(comm, key2, 17_A, ierr)
      call MPI_Comm_get_attr(dup, key2, value, flag, ierr)
      call check(flag .and. value == BIG, 'copied by MPI_COMM_DUP_FN')
      call MPI_Comm_get_attr(dup, key3, value, flag, ierr)
      call check(.not. flag, 'MPI_COMM_NULL_COPY_FN')
      call MPI_Comm_free(comm, ierr)
      call check(last_value == 4 .and. last_state == 1, 'free the old')
      call MPI_Comm_get_attr(dup, key2, value, flag, ierr)
      call check(flag .and. value == BIG, 'the copy is its own')
      call MPI_Comm_free_keyval(key2, ierr)
      call check(key2 == MPI_KEYVAL_INVALID, 'key freed')
      call MPI_Comm_free(dup, ierr)
      call MPI_Comm_free_keyval(key3, ierr)
      call MPI_Comm_free_keyval(key, ierr)
      call check(ierr == 0, 'the last key freed')
      end subroutine of_communicators

      subroutine of_datatypes
      integer :: key, key2
      integer(A) :: value
      logical :: flag
      DATATYPE :: type, dup
      call MPI_Type_contiguous(3, MPI_INTEGER, type, ierr)
      copies = 0
      deletions = 0
      call MPI_Type_create_keyval(type_copy, type_delete, key, BIG,      &
     &  ierr)
      call MPI_Type_create_keyval(MPI_TYPE_DUP_FN,                       &
     &  MPI_TYPE_NULL_DELETE_FN, key2, BIG, ierr)
      call MPI_Type_set_attr(type, key, BIG + 1, ierr)
      call MPI_Type_set_attr(type, key2, BIG + 2, ierr)
      call MPI_Type_dup(type, dup, ierr)
      call check(ierr == 0 .and. copies == 1, 'datatype: copied')
      call check(last_keyval == key .and. last_state == BIG, 'its key')
      call MPI_Type_get_attr(dup, key, value, flag, ierr)
      call check(flag .and. value == -BIG - 1, 'datatype: copy')
      call MPI_Type_get_attr(dup, key2, value, flag, ierr)
      call check(flag .and. value == BIG + 2, 'MPI_TYPE_DUP_FN')
      call MPI_Type_delete_attr(dup, key, ierr)
      call check(deletions == 1, 'datatype: deleted')
      call MPI_Type_get_attr(dup, key, value, flag, ierr)
      call check(.not. flag, 'datatype: gone')
      call MPI_Type_free(dup, ierr)
      call MPI_Type_free(type, ierr)
      call check(deletions == 2 .and. last_value == BIG + 1,             &
     &  'datatype: deleted at free')
      call MPI_Type_free_keyval(key, ierr)
      call MPI_Type_free_keyval(key2, ierr)
      call check(ierr == 0, 'datatype: keys freed')
      end subroutine of_datatypes

      subroutine of_windows
      integer :: key, key2
      integer(A) :: value, base
      logical :: flag
      WINDOW :: win
      integer, asynchronous, target :: memory(5)
      deletions = 0
      call MPI_Win_create(memory, 20_A, 4, MPI_INFO_NULL,                &
     &  MPI_COMM_WORLD, win, ierr)
      call MPI_Win_create_keyval(win_copy, win_delete, key, 6_A, ierr)
      call MPI_Win_create_keyval(MPI_WIN_DUP_FN,                         &
     &  MPI_WIN_NULL_DELETE_FN, key2, 6_A, ierr)
      call MPI_Win_set_attr(win, key, BIG + 3, ierr)
      call MPI_Win_set_attr(win, key2, 2_A, ierr)
      call MPI_Win_get_attr(win, key, value, flag, ierr)
      call check(flag .and. value == BIG + 3, 'window: get')
      call MPI_Get_address(memory, base, ierr)
      call MPI_Win_get_attr(win, MPI_WIN_BASE, value, flag, ierr)
      call check(flag .and. value == base, 'MPI_WIN_BASE')
      call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag, ierr)
      call check(flag .and. value == 20, 'MPI_WIN_SIZE')
      call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, flag, ierr)
      call check(flag .and. value == 4, 'MPI_WIN_DISP_UNIT')
      call MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, value, flag,     &
     &  ierr)
      call check(flag .and. value == MPI_WIN_FLAVOR_CREATE, 'flavor')
      call MPI_Win_get_attr(win, MPI_WIN_MODEL, value, flag, ierr)
      call check(flag .and. (value == MPI_WIN_UNIFIED .or.               &
     &  value == MPI_WIN_SEPARATE), 'MPI_WIN_MODEL')
      call MPI_Win_free(win, ierr)
      call check(deletions == 1 .and. last_value == BIG + 3              &
     &  .and. last_state == 6, 'window: deleted at free')
      call MPI_Win_free_keyval(key, ierr)
      call MPI_Win_free_keyval(key2, ierr)
      end subroutine of_windows

      subroutine predefined
      integer(A) :: value
      logical :: flag
      integer :: code
      call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag,    &
     &  ierr)
      call check(flag .and. value >= 32767, 'MPI_TAG_UB')
      call check(value <= huge(0), 'MPI_TAG_UB is an integer')
      call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL,        &
     &  value, flag, ierr)
      call check(.not. flag .or. value == 0 .or. value == 1, 'WTIME')
      call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, value, flag, ierr)
      call check(flag .and. value == MPI_ANY_SOURCE, 'MPI_IO')
      call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, value,    &
     &  flag, ierr)
      call check(flag .and. value >= MPI_ERR_LASTCODE, 'LASTUSEDCODE')
      call MPI_Add_error_code(MPI_ERR_OTHER, code, ierr)
      call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, value,    &
     &  flag, ierr)
      call check(value == code, 'LASTUSEDCODE grows')
      call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, value,   &
     &  flag, ierr)
      call check(.not. flag .or. value > 0, 'MPI_UNIVERSE_SIZE')
      call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, value, flag,    &
     &  ierr)
      call check(.not. flag .or. value >= 0, 'MPI_APPNUM')
      end subroutine predefined

!     Keys come and go.
      subroutine many
      integer :: key, i
      integer(A) :: value
      logical :: flag
      COMM :: dup
      do i = 1, 2000
        call MPI_Comm_create_keyval(MPI_COMM_DUP_FN,                     &
     &    MPI_COMM_NULL_DELETE_FN, key, 0_A, ierr)
        call check(ierr == 0, 'one of many keys')
        call MPI_Comm_set_attr(MPI_COMM_SELF, key, int(i, A), ierr)
        call MPI_Comm_get_attr(MPI_COMM_SELF, key, value, flag, ierr)
        call check(flag .and. value == i, 'one of many values')
        if (mod(i, 200) == 0) then
          call MPI_Comm_dup(MPI_COMM_SELF, dup, ierr)
          call MPI_Comm_get_attr(dup, key, value, flag, ierr)
          call check(flag .and. value == i, 'one of many copies')
          call MPI_Comm_free(dup, ierr)
        end if
        call MPI_Comm_delete_attr(MPI_COMM_SELF, key, ierr)
        call MPI_Comm_free_keyval(key, ierr)
      end do
      end subroutine many

!     Predefined callbacks, called by the program.
      subroutine direct
      integer(A) :: new
      logical :: flag
      DATATYPE :: type
      type = MPI_INTEGER
      new = 0
      flag = .false.
      ierr = 5
      call MPI_COMM_DUP_FN(MPI_COMM_WORLD, 1, 2_A, BIG, new, flag, ierr)
      call check(flag .and. new == BIG .and. ierr == 0, 'call DUP_FN')
      call MPI_COMM_NULL_COPY_FN(MPI_COMM_WORLD, 1, 2_A, 1_A, new,       &
     &  flag, ierr)
      call check(.not. flag .and. new == BIG, 'call NULL_COPY_FN')
      ierr = 5
      call MPI_COMM_NULL_DELETE_FN(MPI_COMM_WORLD, 1, 2_A, 1_A, ierr)
      call check(ierr == 0, 'call NULL_DELETE_FN')
      call MPI_TYPE_DUP_FN(type, 1, 2_A, BIG + 1, new, flag, ierr)
      call check(flag .and. new == BIG + 1, 'call TYPE_DUP_FN')
      call MPI_TYPE_NULL_COPY_FN(type, 1, 2_A, 1_A, new, flag, ierr)
      call check(.not. flag, 'call TYPE_NULL_COPY_FN')
      end subroutine direct

#ifndef USE_F08
!     The deprecated interface, with default integers.
      subroutine deprecated
      integer :: comm, dup, key, key2, key3, value
      integer(A) :: word
      logical :: flag
      call MPI_Comm_dup(MPI_COMM_SELF, comm, ierr)
      copies = 0
      deletions = 0
      call MPI_Keyval_create(old_copy, old_delete, key, -12, ierr)
      call check(ierr == 0, 'create a deprecated key')
      call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, key2, 0,    &
     &  ierr)
      call MPI_Keyval_create(MPI_NULL_COPY_FN, old_delete, key3, 3,      &
     &  ierr)
      call MPI_Attr_put(comm, key, -7, ierr)
      call MPI_Attr_put(comm, key3, 8, ierr)
      call MPI_Attr_get(comm, key, value, flag, ierr)
      call check(flag .and. value == -7, 'put, get')
      call MPI_Comm_get_attr(comm, key, word, flag, ierr)
      call check(flag .and. word == -7, 'sign-extended')
!     The new interface sets, the old one gets the lower part.
      call MPI_Comm_set_attr(comm, key2, BIG + 3, ierr)
      call MPI_Attr_get(comm, key2, value, flag, ierr)
      call check(flag .and. value == 3, 'the lower part')
      call MPI_Comm_dup(comm, dup, ierr)
      call check(copies == 1 .and. last_value == -7, 'old copy')
      call check(last_state == -12 .and. last_keyval == key, 'state')
      call MPI_Attr_get(dup, key, value, flag, ierr)
      call check(flag .and. value == -6, 'copied by old')
      call MPI_Comm_get_attr(dup, key2, word, flag, ierr)
      call check(flag .and. word == BIG + 3, 'MPI_DUP_FN')
      call MPI_Attr_get(dup, key3, value, flag, ierr)
      call check(.not. flag, 'MPI_NULL_COPY_FN')
      call MPI_Attr_delete(dup, key, ierr)
      call check(deletions == 1 .and. last_value == -6, 'old delete')
      call MPI_Comm_free(dup, ierr)
      call check(deletions == 1, 'nothing else to delete')
      call MPI_Comm_free(comm, ierr)
      call check(deletions == 3, 'deleted at free')
      call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierr)
      call check(flag .and. value >= 32767, 'MPI_TAG_UB, old')
      call MPI_Keyval_free(key, ierr)
      call check(key == MPI_KEYVAL_INVALID, 'deprecated key freed')
      call MPI_Keyval_free(key2, ierr)
      call MPI_Keyval_free(key3, ierr)
      value = 0
      call MPI_DUP_FN(MPI_COMM_WORLD, 1, 2, 6, value, flag, ierr)
      call check(flag .and. value == 6, 'call MPI_DUP_FN')
      end subroutine deprecated
#endif
      end program attributes
