! Array sections of all shapes, sent and received: what arrives where is compared with what Fortran's own assignment does.
! Any number of ranks: each exchanges with its neighbours in a ring.
program sections_shapes
  use mpi_f08
  implicit none

  type :: particle
    integer :: id
    double precision :: place(3)
    complex :: charge
  end type particle

  integer :: rank, ranks, left, right

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  right = mod(rank + 1, ranks)
  left = mod(rank - 1 + ranks, ranks)
  if (.not. MPI_SUBARRAYS_SUPPORTED) error stop "MPI_SUBARRAYS_SUPPORTED is false"

  call one_dimension()
  call two_dimensions()
  call three_dimensions()
  call seven_dimensions()
  call components()
  call texts()
  call parts_of_sections()
  call pointers()
  call empty_ones()
  call sizes_unknown(8)
  call other_datatypes()
  call large_counts()

  call MPI_Finalize()

contains

  subroutine check(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    if (.not. good) then
      write (*, '(3a,i0)') "wrong: ", what, " at rank ", rank
      error stop 1
    end if
  end subroutine check

  ! What the left neighbour has, if this process has it from a function of the rank.
  elemental integer function number(of_rank, index)
    integer, intent(in) :: of_rank, index
    number = 100000 * (of_rank + 1) + index
  end function number

  subroutine one_dimension()
    integer :: a(100), b(100), expected(100), i, steps, step
    integer :: received
    type(MPI_Status) :: status
    do steps = 2, 7
      do step = -1, 1, 2
        a = [(number(rank, i), i = 1, 100)]
        b = -1
        expected = -1
        if (step > 0) then
          expected(3:90:steps) = [(number(left, i), i = 3, 90, steps)]
          call MPI_Sendrecv(a(3:90:steps), size(a(3:90:steps)), MPI_INTEGER, right, 1, &
              b(3:90:steps), size(b(3:90:steps)), MPI_INTEGER, left, 1, MPI_COMM_WORLD, status)
        else
          expected(90:3:-steps) = [(number(left, i), i = 90, 3, -steps)]
          call MPI_Sendrecv(a(90:3:-steps), size(a(90:3:-steps)), MPI_INTEGER, right, 1, &
              b(90:3:-steps), size(b(90:3:-steps)), MPI_INTEGER, left, 1, MPI_COMM_WORLD, status)
        end if
        call check(all(b == expected), "one dimension")
        call MPI_Get_count(status, MPI_INTEGER, received)
        call check(received == size(a(3:90:steps)), "the count of one dimension")
        ! Backwards into forwards, and a section into an array.
        b = -1
        call MPI_Sendrecv(a(100:1:-1), 100, MPI_INTEGER, right, 1, b, 100, MPI_INTEGER, left, 1, &
            MPI_COMM_WORLD, status)
        call check(all(b == [(number(left, i), i = 100, 1, -1)]), "backwards")
        b = -1
        call MPI_Sendrecv(a, 50, MPI_INTEGER, right, 1, b(2:100:2), 50, MPI_INTEGER, left, 1, &
            MPI_COMM_WORLD, status)
        call check(all(b(2:100:2) == [(number(left, i), i = 1, 50)]) .and. all(b(1:99:2) == -1), "into a section")
      end do
    end do
  end subroutine one_dimension

  subroutine two_dimensions()
    integer :: a(10, 12), b(10, 12), expected(10, 12), i, j
    type(MPI_Status) :: status
    do j = 1, 12
      do i = 1, 10
        a(i, j) = number(rank, i + 10 * j)
      end do
    end do

    b = -1
    call MPI_Sendrecv(a(2:7, :), 72, MPI_INTEGER, right, 1, b(2:7, :), 72, MPI_INTEGER, left, 1, MPI_COMM_WORLD, status)
    expected = -1
    expected(2:7, :) = of_left(a(2:7, :))
    call check(all(b == expected), "rows")

    b = -1
    call MPI_Sendrecv(a(1:10:3, 2:12:5), 12, MPI_INTEGER, right, 1, b(1:10:3, 2:12:5), 12, MPI_INTEGER, left, 1, &
        MPI_COMM_WORLD, status)
    expected = -1
    expected(1:10:3, 2:12:5) = of_left(a(1:10:3, 2:12:5))
    call check(all(b == expected), "every third and fifth")

    b = -1
    call MPI_Sendrecv(a(10:1:-2, 12:1:-3), 20, MPI_INTEGER, right, 1, b(10:1:-2, 12:1:-3), 20, MPI_INTEGER, left, 1, &
        MPI_COMM_WORLD, status)
    expected = -1
    expected(10:1:-2, 12:1:-3) = of_left(a(10:1:-2, 12:1:-3))
    call check(all(b == expected), "backwards in both dimensions")

    b = -1
    call MPI_Sendrecv(a(:, 12:1:-1), 120, MPI_INTEGER, right, 1, b(10:1:-1, :), 120, MPI_INTEGER, left, 1, &
        MPI_COMM_WORLD, status)
    expected(10:1:-1, :) = of_left(a(:, 12:1:-1))
    call check(all(b == expected), "other ways")

    b = -1
    call MPI_Sendrecv(a(3, :), 12, MPI_INTEGER, right, 1, b(:, 5), 10, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, status)
    call MPI_Recv(b(7, :), 12, MPI_INTEGER, left, 1, MPI_COMM_WORLD, status)
    expected = -1
    expected(7, :) = of_left(a(3, :))
    call check(all(b == expected), "a row")
  end subroutine two_dimensions

  elemental integer function of_left(mine)
    integer, intent(in) :: mine
    of_left = mine + 100000 * (left - rank)
  end function of_left

  subroutine three_dimensions()
    integer :: a(6, 7, 8), b(6, 7, 8), expected(6, 7, 8), i, count
    a = reshape([(number(rank, i), i = 1, 336)], [6, 7, 8])

    b = -1
    call MPI_Sendrecv(a(2:6:2, 1:7:3, 8:2:-2), 36, MPI_INTEGER, right, 1, &
        b(2:6:2, 1:7:3, 8:2:-2), 36, MPI_INTEGER, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    expected = -1
    expected(2:6:2, 1:7:3, 8:2:-2) = of_left(a(2:6:2, 1:7:3, 8:2:-2))
    call check(all(b == expected), "three dimensions")

    b = -1
    call MPI_Sendrecv(a(:, 3, :), 48, MPI_INTEGER, right, 1, b(:, 4, :), 48, MPI_INTEGER, left, 1, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    expected = -1
    expected(:, 4, :) = of_left(a(:, 3, :))
    call check(all(b == expected), "a plane")

    b = -1
    call MPI_Sendrecv(a(3, :, :), 56, MPI_INTEGER, right, 1, b(2, :, :), 56, MPI_INTEGER, left, 1, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    expected = -1
    expected(2, :, :) = of_left(a(3, :, :))
    call check(all(b == expected), "the plane of the first subscript")

    ! Each count up to all of it: full planes, full columns and a part of one.
    do count = 0, 3 * 4 * 4
      b = -1
      call MPI_Sendrecv(a(1:3, 2:5, 2:8:2), count, MPI_INTEGER, right, 1, b(6:2:-2, 1:7:2, 5:8), count, MPI_INTEGER, left, 1, &
          MPI_COMM_WORLD, MPI_STATUS_IGNORE)
      expected = -1
      call assign(expected(6:2:-2, 1:7:2, 5:8), a(1:3, 2:5, 2:8:2), count)
      call check(all(b == expected), "a part of three dimensions")
    end do
  end subroutine three_dimensions

  subroutine assign(to, from, count)
    integer, intent(inout) :: to(:, :, :)
    integer, intent(in) :: from(:, :, :), count
    integer :: flat(size(to))
    integer :: flat_from(size(from))
    flat = reshape(to, [size(to)])
    flat_from = reshape(from, [size(from)])
    flat(1:count) = of_left(flat_from(1:count))
    to = reshape(flat, shape(to))
  end subroutine assign

  subroutine seven_dimensions()
    integer :: a(3, 3, 3, 3, 3, 3, 3), b(3, 3, 3, 3, 3, 3, 3), expected(3, 3, 3, 3, 3, 3, 3), i
    a = reshape([(number(rank, i), i = 1, 3**7)], [3, 3, 3, 3, 3, 3, 3])
    b = -1
    call MPI_Sendrecv(a(1:3:2, 2:3, 3:1:-1, ::2, :, 3:1:-2, 2:3), 2 * 2 * 3 * 2 * 3 * 2 * 2, MPI_INTEGER, right, 1, &
        b(1:3:2, 2:3, 3:1:-1, ::2, :, 3:1:-2, 2:3), 2 * 2 * 3 * 2 * 3 * 2 * 2, MPI_INTEGER, left, 1, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    expected = -1
    expected(1:3:2, 2:3, 3:1:-1, ::2, :, 3:1:-2, 2:3) = of_left(a(1:3:2, 2:3, 3:1:-1, ::2, :, 3:1:-2, 2:3))
    call check(all(b == expected), "seven dimensions")
  end subroutine seven_dimensions

  subroutine components()
    type(particle) :: a(20), b(20)
    type(MPI_Status) :: status
    integer :: i, count, bytes
    do i = 1, 20
      a(i) = particle(number(rank, i), [rank + i * 1.0d0, rank + i * 2.0d0, rank + i * 3.0d0], cmplx(rank, i))
    end do
    bytes = storage_size(a) / 8
    b%id = -1
    b%charge = 0
    do i = 1, 20
      b(i)%place = -1
    end do

    call MPI_Sendrecv(a%id, 20, MPI_INTEGER, right, 1, b(20:1:-1)%id, 20, MPI_INTEGER, left, 1, MPI_COMM_WORLD, status)
    call check(all(b(20:1:-1)%id == of_left(a%id)), "a component")
    call check(all(real(b%charge) == 0), "nothing beside a component")
    call MPI_Sendrecv(a(1:20:2)%place(2), 10, MPI_DOUBLE_PRECISION, right, 1, b(2:20:2)%place(3), 10, MPI_DOUBLE_PRECISION, &
        left, 1, MPI_COMM_WORLD, status)
    call check(all(b(2:20:2)%place(3) == a(1:20:2)%place(2) - rank + left), "an element of a component")
    call check(all(b(1:20:2)%place(3) == -1) .and. all(b%place(2) == -1), "nothing beside an element of a component")
    call MPI_Sendrecv(a%charge%im, 20, MPI_REAL, right, 1, b%charge%re, 20, MPI_REAL, left, 1, MPI_COMM_WORLD, status)
    call check(all(b%charge%re == aimag(a%charge)) .and. all(b%charge%im == 0), "a part of a complex component")
    call MPI_Sendrecv(a%charge, 20, MPI_COMPLEX, right, 1, b%charge, 20, MPI_COMPLEX, left, 1, MPI_COMM_WORLD, status)
    call check(all(b%charge == cmplx(left, [(i, i = 1, 20)])), "a complex component")
    ! Whole variables of a derived type, as bytes.
    call MPI_Sendrecv(a(1:20:3), 7 * bytes, MPI_BYTE, right, 1, b(20:1:-3), 7 * bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, status)
    call check(all(b(20:1:-3)%id == of_left(a(1:20:3)%id)), "variables of a derived type")
    call check(all(b(20:1:-3)%place(3) == a(1:20:3)%place(3) - rank + left), "all of variables of a derived type")
    call MPI_Get_count(status, MPI_BYTE, count)
    call check(count == 7 * bytes, "the bytes of variables of a derived type")
    ! Not a whole number of variables.
    b%id = -1
    b%charge = 0
    call MPI_Sendrecv(a(1:20:3), 2 * bytes + 4, MPI_BYTE, right, 1, b(1:20:3), 2 * bytes + 4, MPI_BYTE, left, 1, &
        MPI_COMM_WORLD, status)
    call check(all(b(1:7:3)%id == of_left(a(1:7:3)%id)), "a part of a variable of a derived type")
    call check(real(b(7)%charge) == 0 .and. b(10)%id == -1, "nothing after a part of a variable")
  end subroutine components

  subroutine texts()
    character(len=5) :: a(9), b(9)
    integer :: i
    do i = 1, 9
      write (a(i), '(i2,a,i2)') rank, ":", i
    end do
    b = "....."
    call MPI_Sendrecv(a(1:9:2), 25, MPI_CHARACTER, right, 1, b(9:1:-2), 25, MPI_CHARACTER, left, 1, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    do i = 1, 9
      if (mod(i, 2) == 0) then
        call check(b(i) == ".....", "nothing beside a text")
      else
        call check(b(i)(3:5) == a(10 - i)(3:5), "a text")
      end if
    end do
    b = "....."
    call MPI_Sendrecv(a(1:9:2)(4:5), 10, MPI_CHARACTER, right, 1, b(1:9:2)(1:2), 10, MPI_CHARACTER, left, 1, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    do i = 1, 9, 2
      call check(b(i) == a(i)(4:5) // "...", "a substring")
    end do
    ! A part of a text.
    b = "....."
    call MPI_Sendrecv(a(1:9:2), 7, MPI_CHARACTER, right, 1, b(1:9:2), 7, MPI_CHARACTER, left, 1, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check(b(1)(3:5) == a(1)(3:5) .and. b(3)(3:5) == "..." .and. b(5) == ".....", "a part of a text")
  end subroutine texts

  subroutine parts_of_sections()
    double precision :: a(40), b(40), expected(40)
    integer :: i, count
    a = [(rank * 1000 + i, i = 1, 40)]
    do count = 0, 20
      b = -1
      call MPI_Sendrecv(a(40:1:-2), count, MPI_DOUBLE_PRECISION, right, 1, b(1:40:2), count, MPI_DOUBLE_PRECISION, left, 1, &
          MPI_COMM_WORLD, MPI_STATUS_IGNORE)
      expected = -1
      expected(1:2 * count:2) = [(left * 1000 + i, i = 40, 42 - 2 * count, -2)]
      call check(all(b == expected), "a part of a section")
    end do
  end subroutine parts_of_sections

  subroutine pointers()
    type(particle), allocatable, target :: a(:), b(:)
    double precision, pointer :: from(:), to(:)
    integer, pointer :: row(:), table(:, :)
    integer :: i
    allocate (a(30), b(0:29))
    do i = 1, 30
      a(i) = particle(number(rank, i), [rank + i * 1.0d0, rank + i * 2.0d0, rank + i * 3.0d0], cmplx(rank, i))
      b(i - 1)%place = -1
    end do
    from => a(::3)%place(1)
    to => b(28:0:-3)%place(2)
    call check(size(from) == size(to), "the sizes of pointers")
    call MPI_Sendrecv(from, size(from), MPI_DOUBLE_PRECISION, right, 1, to, size(to), MPI_DOUBLE_PRECISION, left, 1, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check(all(b(28:0:-3)%place(2) == a(::3)%place(1) - rank + left), "pointers to components")
    call check(all(b%place(1) == -1) .and. all(b(27:0:-3)%place(2) == -1), "nothing beside a pointer's target")

    allocate (table(-3:6, 7))
    table = number(rank, 0)
    row => table(2, 2:6)
    row = [(number(rank, i), i = 1, 5)]
    call MPI_Sendrecv_replace(row, 5, MPI_INTEGER, right, 1, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check(all(row == [(number(left, i), i = 1, 5)]), "a row by a pointer")
    call check(count(table == number(rank, 0)) == 65, "nothing beside a row by a pointer")
    deallocate (table)
  end subroutine pointers

  subroutine empty_ones()
    integer :: a(10), n
    integer, allocatable :: nothing(:), none(:, :)
    a = 7
    n = 0
    allocate (nothing(0), none(5, 0))
    call MPI_Sendrecv(a(5:4:2), 0, MPI_INTEGER, right, 1, a(1:n:3), 0, MPI_INTEGER, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(nothing, 0, MPI_INTEGER, right, 1, none(1:5:2, :), 0, MPI_INTEGER, left, 1, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(a(1:9:2), 0, MPI_INTEGER, right, 1, a(2:10:2), 0, MPI_INTEGER, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(MPI_BOTTOM, 0, MPI_INTEGER, right, 1, a(2:10:2), 5, MPI_INTEGER, left, 1, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check(all(a == 7), "nothing")
  end subroutine empty_ones

  subroutine sizes_unknown(n)
    integer, intent(in) :: n
    integer :: a(n), b(n)
    a = number(rank, 1)
    call exchange(a, b)
    call check(all(b == number(left, 1)), "arrays of unknown size")
  end subroutine sizes_unknown

  subroutine exchange(a, b)
    integer :: a(*), b(2, *)
    call MPI_Sendrecv(a, 8, MPI_INTEGER, right, 1, b, 8, MPI_INTEGER, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end subroutine exchange

  ! Datatypes that an element of the section is not a whole number of.
  subroutine other_datatypes()
    double precision :: a(60), b(60), expected(60)
    type(MPI_Datatype) :: pair, sparse, padded
    type(MPI_Request) :: requests(2)
    integer :: i
    a = [(rank * 1000 + i, i = 1, 60)]
    call MPI_Type_contiguous(2, MPI_DOUBLE_PRECISION, pair)
    call MPI_Type_commit(pair)
    ! Two of four.
    call MPI_Type_vector(2, 1, 2, MPI_DOUBLE_PRECISION, sparse)
    call MPI_Type_create_resized(sparse, 0_MPI_ADDRESS_KIND, 32_MPI_ADDRESS_KIND, padded)
    call MPI_Type_commit(padded)

    b = -1
    call MPI_Sendrecv(a(1:60:3), 10, pair, right, 1, b(2:60:3), 10, pair, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    expected = -1
    expected(2:60:3) = [(left * 1000 + i, i = 1, 60, 3)]
    call check(all(b == expected), "pairs")

    ! Of the twenty elements the first and third of each four.
    b = -1
    call MPI_Sendrecv(a(1:60:3), 5, padded, right, 1, b(60:1:-3), 5, padded, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    expected = -1
    do i = 0, 19, 2
      expected(60 - 3 * i) = left * 1000 + 1 + 3 * i
    end do
    call check(all(b == expected), "two of four")

    ! Nonblocking, with changes to the gaps in the meantime.
    b = -1
    call MPI_Irecv(b(60:1:-3), 5, padded, left, 1, MPI_COMM_WORLD, requests(1))
    b(57) = -2
    b(59) = -3
    call MPI_Isend(a(1:60:3), 5, padded, right, 1, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    expected(57) = -2
    expected(59) = -3
    call check(all(b == expected), "two of four, not blocking")
    call MPI_Type_free(pair)
    call MPI_Type_free(sparse)
    call MPI_Type_free(padded)

    ! Complex numbers from real ones.
    b = -1
    call MPI_Sendrecv(a(1:60:3), 10, MPI_DOUBLE_COMPLEX, right, 1, b(2:60:3), 10, MPI_DOUBLE_COMPLEX, left, 1, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    expected = -1
    expected(2:60:3) = [(left * 1000 + i, i = 1, 60, 3)]
    call check(all(b == expected), "complex numbers from real ones")
  end subroutine other_datatypes

  subroutine large_counts()
    double precision, allocatable :: a(:, :), b(:, :)
    type(MPI_Status) :: status
    type(MPI_Request) :: requests(2)
    integer(kind=MPI_COUNT_KIND) :: count
    integer :: i, j
    allocate (a(1000, 300), b(1000, 300))
    do j = 1, 300
      do i = 1, 1000
        a(i, j) = rank * 1d6 + i + 1000 * j
      end do
    end do
    b = -1
    count = 500 * 100
    call MPI_Sendrecv(a(1:1000:2, 1:300:3), count, MPI_DOUBLE_PRECISION, right, 1, &
        b(1000:1:-2, 300:1:-3), count, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, status)
    call check(all(b(1000:1:-2, 300:1:-3) == a(1:1000:2, 1:300:3) + (left - rank) * 1d6), "a large section")
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, count)
    call check(count == 500 * 100, "a large count")
    b = -1
    call MPI_Irecv(b(2:1000, :), 999 * 300, MPI_DOUBLE_PRECISION, left, 2, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(a(1:999, :), 999 * 300, MPI_DOUBLE_PRECISION, right, 2, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check(all(b(2:1000, :) == a(1:999, :) + (left - rank) * 1d6), "a large block")
    call check(all(b(1, :) == -1), "nothing beside a large block")
  end subroutine large_counts
end program sections_shapes
