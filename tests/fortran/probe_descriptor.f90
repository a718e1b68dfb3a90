! What a compiler's descriptors say is what the library reads: the question that `weft-fortran-modules` asks before it lets mpi_f08 pass
! buffers as descriptors. One process, without MPI.
program probe_descriptor
  use, intrinsic :: iso_c_binding
  implicit none

  interface
    subroutine probe(buffer, base, version, element, rank, contiguous, room, extents, strides) &
        bind(c, name="weft_probe_descriptor")
      import
      type(*), dimension(..), intent(in) :: buffer
      type(c_ptr) :: base
      integer(c_int) :: version, rank, contiguous
      integer(c_int64_t) :: element, extents(*), strides(*)
      integer(c_int), value :: room
    end subroutine probe
  end interface

  type :: item
    integer :: number
    character(len=3) :: text
    double precision :: other
  end type item

  double precision, target :: a(10, 20, 30)
  type(item), target :: items(7)
  integer, target :: scalar
  character(len=5), target :: texts(4)
  double precision, allocatable :: none(:)
  type(c_ptr) :: base
  integer(c_int) :: version, rank, contiguous
  integer(c_int64_t) :: element, extents(15), strides(15)

  call probe(a, base, version, element, rank, contiguous, 15, extents, strides)
  call expect("an array", c_loc(a), 8, 3, .true., [10, 20, 30], [8, 80, 1600])
  call probe(a(2:10:3, 20:1:-4, 5:6), base, version, element, rank, contiguous, 15, extents, strides)
  call expect("a section", c_loc(a(2, 20, 5)), 8, 3, .false., [3, 5, 2], [24, -320, 1600])
  call probe(a(:, 3:4, 7), base, version, element, rank, contiguous, 15, extents, strides)
  call expect("columns", c_loc(a(1, 3, 7)), 8, 2, .true., [10, 2], [8, 80])
  call probe(items%text, base, version, element, rank, contiguous, 15, extents, strides)
  call expect("components", c_loc(items(1)%text), 3, 1, .false., [7], [16])
  call probe(items(2:7:2), base, version, element, rank, contiguous, 15, extents, strides)
  call expect("items", c_loc(items(2)), 16, 1, .false., [3], [32])
  call probe(texts(4:1:-1), base, version, element, rank, contiguous, 15, extents, strides)
  call expect("texts", c_loc(texts(4)), 5, 1, .false., [4], [-5])
  call probe(scalar, base, version, element, rank, contiguous, 15, extents, strides)
  call expect("a scalar", c_loc(scalar), 4, 0, .true., [integer ::], [integer ::])
  allocate (none(0))
  call probe(none, base, version, element, rank, contiguous, 15, extents, strides)
  if (contiguous /= 1 .or. extents(1) /= 0) error stop "an empty array"
  call unknown(a)

contains

  subroutine expect(what, address, bytes, dimensions, together, lengths, distances)
    character(len=*), intent(in) :: what
    type(c_ptr), intent(in) :: address
    integer, intent(in) :: bytes, dimensions, lengths(:), distances(:)
    logical, intent(in) :: together
    if (.not. c_associated(base, address) .or. element /= bytes .or. rank /= dimensions .or. &
        (contiguous == 1 .neqv. together)) then
      write (*, '(2a,4(1x,i0))') "wrong: ", what, version, element, rank, contiguous
      error stop 1
    end if
    if (any(extents(1:rank) /= lengths) .or. any(strides(1:rank) /= distances)) then
      write (*, '(2a,30(1x,i0))') "wrong: ", what, extents(1:rank), strides(1:rank)
      error stop 1
    end if
  end subroutine expect

  subroutine unknown(x)
    double precision, target :: x(4, *)
    call probe(x, base, version, element, rank, contiguous, 15, extents, strides)
    call expect("an array of unknown size", c_loc(x), 8, 2, .true., [4, -1], [8, 32])
  end subroutine unknown
end program probe_descriptor
