! Attributes set in one language and read in the other, and callbacks of each called from the other: the examples of section 19.3.7.
#include "checks.inc"
module fortran_side
  use mpi
  use checks
  implicit none
  integer, parameter :: A = MPI_ADDRESS_KIND
  integer :: deletions = 0
  integer(A) :: deleted = 0, copied = 0
contains

  subroutine copy(comm, keyval, state, old, new, flag, ierr)
    integer :: comm, keyval, ierr
    integer(A) :: state, old, new
    logical :: flag
    copied = old
    new = old + state
    flag = .true.
    ierr = MPI_SUCCESS
  end subroutine copy

  subroutine delete(comm, keyval, value, state, ierr)
    integer :: comm, keyval, ierr
    integer(A) :: value, state
    deletions = deletions + 1
    deleted = value
    ierr = MPI_SUCCESS
  end subroutine delete
end module fortran_side

program languages_attributes
  use fortran_side
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    ! A key that C makes: its copy callback duplicates, its delete callback counts.
    integer(c_int) function c_keyval() bind(c)
      import
    end function c_keyval
    ! Sets an address, and returns it; `which` picks a variable, or the number 17.
    integer(c_intptr_t) function c_put(comm, key, which) bind(c)
      import
      integer(c_int), value :: comm, key, which
    end function c_put
    ! What C finds: the pointer, as a number, or -1.
    integer(c_intptr_t) function c_pointer(comm, key) bind(c)
      import
      integer(c_int), value :: comm, key
    end function c_pointer
    ! What is there where the pointer points: as an int, and as an MPI_Aint.
    integer(c_int) function c_int_there(comm, key) bind(c)
      import
      integer(c_int), value :: comm, key
    end function c_int_there
    integer(c_intptr_t) function c_aint_there(comm, key) bind(c)
      import
      integer(c_int), value :: comm, key
    end function c_aint_there
    integer(c_int) function c_dup(comm) bind(c)
      import
      integer(c_int), value :: comm
    end function c_dup
    subroutine c_free(comm) bind(c)
      import
      integer(c_int), value :: comm
    end subroutine c_free
    integer(c_int) function c_deletions() bind(c)
      import
    end function c_deletions
    subroutine c_free_keyval(key) bind(c)
      import
      integer(c_int), value :: key
    end subroutine c_free_keyval
  end interface
  integer :: ierr, comm, i
  integer :: ours, of_c, duplicated
  call MPI_Init(ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_create_keyval(copy, delete, ours, 1_A, ierr)
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, duplicated, 0_A, ierr)
  of_c = c_keyval()
  do i = 1, 3
    call from_c(pick(i))
  end do
  do i = 1, 3
    call from_fortran(pick(i))
  end do
  call copies
  call MPI_Comm_free(comm, ierr)
  call c_free_keyval(ours)
  call MPI_Comm_free_keyval(of_c, ierr)
  call check(ierr == 0, 'a key of C''s is freed in Fortran')
  call MPI_Comm_free_keyval(duplicated, ierr)
  call MPI_Finalize(ierr)
contains

  integer function pick(i)
    integer, intent(in) :: i
    pick = ours
    if (i == 2) pick = of_c
    if (i == 3) pick = duplicated
  end function pick

  subroutine from_c(key)
    integer, intent(in) :: key
    integer :: which, value
    integer(A) :: word, address
    logical :: flag
    do which = 1, 3
      address = c_put(comm, key, which)
      if (which == 3) call check(address == 17, 'an integer in a pointer')
      call check(c_pointer(comm, key) == address, 'C reads what C set')
      call MPI_Comm_get_attr(comm, key, word, flag, ierr)
      call check(flag .and. word == address, 'Fortran reads the address')
      call MPI_Attr_get(comm, key, value, flag, ierr)
      call check(flag .and. value == truncated(address), 'the old interface reads its lower part')
    end do
    call MPI_Comm_delete_attr(comm, key, ierr)
    call MPI_Comm_get_attr(comm, key, word, flag, ierr)
    call check(.not. flag, 'Fortran deletes what C set')
    if (key == ours) call check(deleted == 17 .and. deletions == 3, 'Fortran''s callback for C''s attribute')
  end subroutine from_c

  integer function truncated(word)
    integer(A), intent(in) :: word
    integer :: parts(2)
    parts = transfer(word, parts)
    truncated = merge(parts(1), parts(2), transfer(1_A, 1) == 1)
  end function truncated

  subroutine from_fortran(key)
    integer, intent(in) :: key
    integer :: value, i
    integer(A) :: word, values(4), before
    logical :: flag
    ! The deprecated procedure: C gets a pointer to an int.
    do i = 1, 2
      value = merge(7, -7, i == 1)
      call MPI_Attr_put(comm, key, value, ierr)
      call check(c_int_there(comm, key) == value, 'C reads the int')
      call MPI_Comm_get_attr(comm, key, word, flag, ierr)
      call check(flag .and. word == value, 'sign-extended')
      value = 0
      call MPI_Attr_get(comm, key, value, flag, ierr)
      call check(flag .and. value == word, 'the same')
    end do
    ! The new one: a pointer to an MPI_Aint.
    values = [42_A, 2_A ** 40, -1_A, 0_A]
    do i = 1, 4
      call MPI_Comm_set_attr(comm, key, values(i), ierr)
      call check(c_aint_there(comm, key) == values(i), 'C reads the MPI_Aint')
      call MPI_Comm_get_attr(comm, key, word, flag, ierr)
      call check(flag .and. word == values(i), 'Fortran reads its value')
      call MPI_Attr_get(comm, key, value, flag, ierr)
      call check(flag .and. value == truncated(values(i)), 'its lower part')
    end do
    before = c_deletions()
    call MPI_Comm_delete_attr(comm, key, ierr)
    call check(ierr == 0, 'deleted')
    if (key == of_c) call check(c_deletions() == before + 1, 'C''s callback for Fortran''s attribute')
    if (key == ours) call check(deleted == 0, 'Fortran''s callback')
  end subroutine from_fortran

  ! Copies, made by C, with callbacks of both languages.
  subroutine copies
    integer :: dup
    integer(A) :: word, address
    logical :: flag
    call MPI_Comm_set_attr(comm, ours, 2_A ** 33, ierr)
    call MPI_Comm_set_attr(comm, of_c, 2_A ** 34, ierr)
    call MPI_Comm_set_attr(comm, duplicated, 2_A ** 35, ierr)
    dup = c_dup(comm)
    call check(copied == 2_A ** 33, 'copied')
    call check(c_aint_there(dup, ours) == 2_A ** 33 + 1, 'C reads the copy')
    call MPI_Comm_get_attr(dup, of_c, word, flag, ierr)
    call check(flag .and. word == 2_A ** 34, 'copied by C''s callback')
    call MPI_Comm_get_attr(dup, duplicated, word, flag, ierr)
    call check(flag .and. word == 2_A ** 35, 'copied by MPI_COMM_DUP_FN')
    call check(c_pointer(comm, duplicated) /= c_pointer(dup, duplicated), 'a place of its own')
    call MPI_Comm_delete_attr(comm, duplicated, ierr)
    call check(c_aint_there(dup, duplicated) == 2_A ** 35, 'the copy stays')
    call c_free(dup)
    call check(deleted == 2_A ** 33 + 1, 'deleted by C')
    ! A pointer of C's is copied as it is.
    address = c_put(comm, duplicated, 1)
    address = c_put(comm, of_c, 2)
    dup = c_dup(comm)
    call check(c_pointer(dup, of_c) == address, 'the same pointer')
    call check(c_pointer(dup, duplicated) == c_pointer(comm, duplicated), 'the same pointer in Fortran')
    call c_free(dup)
    ! A key of Fortran's copies it with Fortran's callback, which makes it an integer.
    address = c_put(comm, ours, 1)
    dup = c_dup(comm)
    call check(copied == address, 'the address is copied')
    call check(c_aint_there(dup, ours) == address + 1, 'an integer of Fortran''s')
    call c_free(dup)
  end subroutine copies
end program languages_attributes
