! Datatypes: Fortran's own (sections 19.1.9, 19.1.10), derived ones, and what they contain.
#include "interface.h"
program datatypes
  MPI_MODULE
  implicit none
  MPI_INCLUDE
  integer :: rank, ranks, ierror, i

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call sizes()
  call sizes_of_variables()
  call parametrised()
  call contents()
  call subarrays()
  call packed()
  if (rank == 0) print '(a, i0, a)', 'datatypes: ok with ', ranks, ' ranks'
  call MPI_Finalize(ierror)

contains
#include "check.inc"

  subroutine size_is(type, bytes)
    DATATYPE, intent(in) :: type
    integer, intent(in) :: bytes
    integer :: size
    integer(kind=MPI_ADDRESS_KIND) :: lb, extent
    call MPI_Type_size(type, size, ierror)
    CHECK(size == bytes)
    call MPI_Type_get_extent(type, lb, extent, ierror)
    CHECK(lb == 0 .and. extent >= bytes)
  end subroutine size_is

  subroutine sizes()
    call size_is(MPI_INTEGER, storage_size(1) / 8)
    call size_is(MPI_REAL, storage_size(1.0) / 8)
    call size_is(MPI_DOUBLE_PRECISION, storage_size(1.0d0) / 8)
    call size_is(MPI_COMPLEX, storage_size((1.0, 1.0)) / 8)
    call size_is(MPI_DOUBLE_COMPLEX, storage_size((1.0d0, 1.0d0)) / 8)
    call size_is(MPI_LOGICAL, storage_size(.true.) / 8)
    call size_is(MPI_CHARACTER, 1)
    call size_is(MPI_INTEGER1, 1)
    call size_is(MPI_INTEGER2, 2)
    call size_is(MPI_INTEGER4, 4)
    call size_is(MPI_INTEGER8, 8)
    call size_is(MPI_REAL4, 4)
    call size_is(MPI_REAL8, 8)
    call size_is(MPI_REAL16, 16)
    call size_is(MPI_COMPLEX8, 8)
    call size_is(MPI_COMPLEX16, 16)
    call size_is(MPI_COMPLEX32, 32)
    call size_is(MPI_LOGICAL1, 1)
    call size_is(MPI_LOGICAL8, 8)
    call size_is(MPI_2REAL, 8)
    call size_is(MPI_2INTEGER, 8)
    call size_is(MPI_2DOUBLE_PRECISION, 16)
    call size_is(MPI_AINT, 8)
    call size_is(MPI_COUNT, 8)
    call size_is(MPI_OFFSET, 8)
  end subroutine sizes

  subroutine sizes_of_variables()
#if !defined(USE_MPIF)
    integer :: size
    double precision :: array(3, 4)
    complex :: z
    logical(kind=1) :: tiny
    character(len=7) :: text
    call MPI_Sizeof(array, size, ierror)
    CHECK(size == 8)
    call MPI_Sizeof(array(1:3:2, :), size, ierror)
    CHECK(size == 8)
    call MPI_Sizeof(z, size, ierror)
    CHECK(size == 8)
    call MPI_Sizeof(tiny, size, ierror)
    CHECK(size == 1)
    call MPI_Sizeof(text, size, ierror)
    CHECK(size == 7)
    call MPI_Sizeof(1_8, size, ierror)
    CHECK(size == 8)
#endif
  end subroutine sizes_of_variables

  subroutine parametrised()
    integer, parameter :: long = selected_real_kind(15, 300), wide = selected_int_kind(12)
    DATATYPE :: real_type, same, integer_type, complex_type, found
    real(kind=long) :: x, total
    integer(kind=wide) :: number, sum
    complex(kind=long) :: z
    integer :: integers, addresses, types, combiner
    integer :: values(2)
    integer(kind=MPI_ADDRESS_KIND) :: no_addresses(1)
    DATATYPE :: no_types(1)
    call MPI_Type_create_f90_real(15, 300, real_type, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call size_is(real_type, storage_size(x) / 8)
    call MPI_Type_create_f90_real(15, 300, same, ierror)
    CHECK(same == real_type)
    call MPI_Type_create_f90_integer(12, integer_type, ierror)
    call size_is(integer_type, storage_size(number) / 8)
    call MPI_Type_create_f90_complex(15, MPI_UNDEFINED, complex_type, ierror)
    call size_is(complex_type, storage_size(z) / 8)
    call MPI_Type_get_envelope(real_type, integers, addresses, types, combiner, ierror)
    CHECK(combiner == MPI_COMBINER_F90_REAL .and. integers == 2 .and. addresses == 0 .and. types == 0)
    call MPI_Type_get_contents(real_type, 2, 0, 0, values, no_addresses, no_types, ierror)
    CHECK(values(1) == 15 .and. values(2) == 300)
    x = 1.5_long
    call MPI_Allreduce(x, total, 1, real_type, MPI_SUM, MPI_COMM_WORLD, ierror)
    CHECK(total == 1.5_long * ranks)
    number = 10_wide**11
    call MPI_Allreduce(number, sum, 1, integer_type, MPI_SUM, MPI_COMM_WORLD, ierror)
    CHECK(sum == 10_wide**11 * ranks)
    call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, found, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call size_is(found, 8)
    call MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 2, found, ierror)
    call size_is(found, 2)
  end subroutine parametrised

  subroutine contents()
    DATATYPE :: type, types(3), found(4)
    integer :: blocks(3), integers, addresses, datatypes, combiner, values(4)
    integer(kind=MPI_ADDRESS_KIND) :: displs(3), where(3)
    blocks = [1, 2, 3]
    displs = [0, 16, 32]
    types(1) = MPI_INTEGER
    types(2) = MPI_REAL8
    types(3) = MPI_CHARACTER
    call MPI_Type_create_struct(3, blocks, displs, types, type, ierror)
    call MPI_Type_get_envelope(type, integers, addresses, datatypes, combiner, ierror)
    CHECK(combiner == MPI_COMBINER_STRUCT .and. integers == 4 .and. addresses == 3 .and. datatypes == 3)
    ! There may be room for more.
    call MPI_Type_get_contents(type, 4, 3, 4, values, where, found, ierror)
    CHECK(all(values == [3, 1, 2, 3]) .and. all(where == displs))
    CHECK(found(1) == MPI_INTEGER .and. found(2) == MPI_REAL8 .and. found(3) == MPI_CHARACTER)
    call MPI_Type_free(type, ierror)
  end subroutine contents

  subroutine subarrays()
    ! Fortran's order: the first index is that of neighbours.
    integer :: array(4, 5), column(6)
    DATATYPE :: type
    STATUS_OF(status)
    array = reshape([(i, i = 1, 20)], [4, 5])
    call MPI_Type_create_subarray(2, [4, 5], [2, 3], [1, 2], MPI_ORDER_FORTRAN, MPI_INTEGER, type, ierror)
    call MPI_Type_commit(type, ierror)
    call MPI_Sendrecv(array, 1, type, rank, 0, column, 6, MPI_INTEGER, rank, 0, MPI_COMM_WORLD, status, ierror)
    CHECK(all(column == reshape(array(2:3, 3:5), [6])))
    call MPI_Type_free(type, ierror)
  end subroutine subarrays

  subroutine packed()
    character :: buffer(100)
    integer :: position, size, numbers(2)
    integer(kind=MPI_ADDRESS_KIND) :: room, at
    real :: x
    position = 0
    call MPI_Pack_size(2, MPI_INTEGER, MPI_COMM_WORLD, size, ierror)
    CHECK(size >= 8)
    call MPI_Pack([1, 2], 2, MPI_INTEGER, buffer, 100, position, MPI_COMM_WORLD, ierror)
    call MPI_Pack(2.5, 1, MPI_REAL, buffer, 100, position, MPI_COMM_WORLD, ierror)
    CHECK(position == 12)
    position = 0
    call MPI_Unpack(buffer, 100, position, numbers, 2, MPI_INTEGER, MPI_COMM_WORLD, ierror)
    call MPI_Unpack(buffer, 100, position, x, 1, MPI_REAL, MPI_COMM_WORLD, ierror)
    CHECK(all(numbers == [1, 2]) .and. x == 2.5)
    call MPI_Pack_external_size('external32', 3, MPI_INTEGER, room, ierror)
    CHECK(room == 12)
    at = 0
    call MPI_Pack_external('external32', [1, 256], 2, MPI_INTEGER, buffer, 100_MPI_ADDRESS_KIND, at, ierror)
    CHECK(at == 8)
    CHECK(all(ichar(buffer(1:8)) == [0, 0, 0, 1, 0, 0, 1, 0]))
    at = 0
    call MPI_Unpack_external('external32  ', buffer, 100_MPI_ADDRESS_KIND, at, numbers, 2, MPI_INTEGER, ierror)
    CHECK(all(numbers == [1, 256]))
  end subroutine packed
end program datatypes
