! Array sections in all collective operations: blocking, not blocking and persistent, where the send buffer, the receive buffer or both
! are sections, or one is in place. Any number of ranks.
program sections_collectives
  use mpi_f08
  implicit none

  integer, parameter :: m = 5, blocking = 1, not_blocking = 2, persistent = 3
  integer :: rank, ranks, way, sides, turn, kind_of_section
  integer, allocatable, target, asynchronous :: flat_send(:), flat_receive(:), wide_send(:, :), wide_receive(:, :)
  integer, pointer, asynchronous :: s(:), r(:)
  integer, asynchronous :: threes(2) = 3, fives(2) = m, from_two(2) = [0, m]
  integer, allocatable, asynchronous :: counts(:), places(:), bytes(:)
  integer(kind=MPI_ADDRESS_KIND), allocatable, asynchronous :: far(:)
  type(MPI_Datatype), allocatable, asynchronous :: types(:)
  type(MPI_Comm) :: comm, ring
  type(MPI_Request) :: request
  character(len=40) :: name

  call MPI_Init()
  comm = MPI_COMM_WORLD
  call MPI_Comm_rank(comm, rank)
  call MPI_Comm_size(comm, ranks)
  call MPI_Cart_create(comm, 1, [ranks], [.true.], .false., ring)
  allocate (flat_send(m * ranks * 2), flat_receive(m * ranks * 2), wide_send(3, m * ranks * 2), wide_receive(3, m * ranks * 2))
  allocate (counts(ranks), places(ranks), bytes(ranks), far(2), types(max(ranks, 2)))
  types = MPI_INTEGER

  do kind_of_section = 1, 2
    do way = blocking, persistent
      do sides = 0, 3
        call broadcast()
        call gather()
        call gather_parts()
        call scatter()
        call scatter_parts()
        call gather_to_all()
        call gather_parts_to_all()
        call all_to_all()
        call parts_all_to_all()
        call parts_of_types_all_to_all()
        call reduce()
        call reduce_to_all()
        call reduce_and_scatter_blocks()
        call reduce_and_scatter()
        call scan()
        call scan_before()
        call neighbours_gather()
        call neighbours_all()
        call in_place()
      end do
    end do
  end do
  call local()
  call MPI_Comm_free(ring)
  call MPI_Finalize()

contains

  subroutine check(good)
    logical, intent(in) :: good
    integer :: i
    if (.not. good) then
      write (*, '(3a,5(a,i0))') "wrong: ", trim(name), ":", " rank ", rank, " way ", way, " sides ", sides, " turn ", turn, &
          " section ", kind_of_section
      write (*, '(a,20i8)') "received ", (r(i), i = 1, min(20, size(r)))
      error stop 1
    end if
  end subroutine check

  integer function value(of_rank, index)
    integer, intent(in) :: of_rank, index
    value = 10000 * turn + 1000 * (of_rank + 1) + index
  end function value

  ! s and r are so long, and as contiguous as `sides` says.
  subroutine prepare(what, of_s, of_r)
    character(len=*), intent(in) :: what
    integer, intent(in) :: of_s, of_r
    name = what
    turn = 0
    if (iand(sides, 1) /= 0) then
      if (kind_of_section == 1) then
        s => wide_send(2, 1:of_s)
      else
        s => wide_send(3, of_s:1:-1)
      end if
    else
      s => flat_send(1:of_s)
    end if
    if (iand(sides, 2) /= 0) then
      if (kind_of_section == 1) then
        r => wide_receive(1, size(wide_receive, 2) - of_r + 1:)
      else
        r => wide_receive(2, of_r:1:-1)
      end if
    else
      r => flat_receive(1:of_r)
    end if
  end subroutine prepare

  ! Whether there is one more turn, with other values. Persistent operations are started three times.
  logical function another()
    integer :: i
    turn = turn + 1
    another = turn <= merge(3, 1, way == persistent)
    if (another) then
      flat_receive = -1
      wide_receive = -1
      wide_send = -2
      do i = 1, size(s)
        s(i) = value(rank, i)
      end do
    else if (way == persistent) then
      call MPI_Request_free(request)
    end if
  end function another

  ! After a call in this way.
  subroutine complete()
    if (way == persistent) call MPI_Start(request)
    if (way /= blocking) call MPI_Wait(request, MPI_STATUS_IGNORE)
    ! Nothing beside the section has changed.
    if (iand(sides, 2) /= 0) then
      if (count(wide_receive == -1) + count(r /= -1) /= size(wide_receive)) call check(.false.)
    end if
  end subroutine complete

  subroutine broadcast()
    integer :: root, i
    do root = 0, ranks - 1
      call prepare("bcast", m, m)
      do while (another())
        if (rank == root) r = s
        select case (way)
        case (blocking)
          call MPI_Bcast(r, m, MPI_INTEGER, root, comm)
        case (not_blocking)
          call MPI_Ibcast(r, m, MPI_INTEGER, root, comm, request)
        case default
          if (turn == 1) call MPI_Bcast_init(r, m, MPI_INTEGER, root, comm, MPI_INFO_NULL, request)
        end select
        call complete()
        call check(all(r == [(value(root, i), i = 1, m)]))
      end do
    end do
  end subroutine broadcast

  subroutine gather()
    integer :: root, i, j
    root = ranks - 1
    call prepare("gather", m, m * ranks)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Gather(s, m, MPI_INTEGER, r, m, MPI_INTEGER, root, comm)
      case (not_blocking)
        call MPI_Igather(s, m, MPI_INTEGER, r, m, MPI_INTEGER, root, comm, request)
        ! Not significant there: the program may use it.
        if (rank /= root) r(2) = 12
      case default
        if (turn == 1) call MPI_Gather_init(s, m, MPI_INTEGER, r, m, MPI_INTEGER, root, comm, MPI_INFO_NULL, request)
      end select
      call complete()
      if (rank == root) then
        call check(all(r == [((value(j, i), i = 1, m), j = 0, ranks - 1)]))
      else
        call check(r(2) == merge(12, -1, way == not_blocking))
      end if
    end do
  end subroutine gather

  subroutine uneven(gap)
    integer, intent(in) :: gap
    integer :: j
    do j = 1, ranks
      counts(j) = mod(j, m)
      places(j) = (j - 1) * (m + gap)
    end do
  end subroutine uneven

  ! What the parts of all make up, in `ranks` blocks of m.
  logical function parts(to)
    integer, intent(in) :: to(:)
    integer :: i, j
    parts = .true.
    do j = 1, ranks
      do i = 1, m
        parts = parts .and. to((j - 1) * m + i) == merge(value(j - 1, i), -1, i <= counts(j))
      end do
    end do
  end function parts

  subroutine gather_parts()
    call uneven(0)
    call prepare("gatherv", m, m * ranks)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Gatherv(s, counts(rank + 1), MPI_INTEGER, r, counts, places, MPI_INTEGER, 0, comm)
      case (not_blocking)
        call MPI_Igatherv(s, counts(rank + 1), MPI_INTEGER, r, counts, places, MPI_INTEGER, 0, comm, request)
      case default
        if (turn == 1) call MPI_Gatherv_init(s, counts(rank + 1), MPI_INTEGER, r, counts, places, MPI_INTEGER, 0, comm, &
            MPI_INFO_NULL, request)
      end select
      call complete()
      if (rank == 0) call check(parts(r))
    end do
  end subroutine gather_parts

  subroutine scatter()
    integer :: root, i
    root = 0
    call prepare("scatter", m * ranks, m)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Scatter(s, m, MPI_INTEGER, r, m, MPI_INTEGER, root, comm)
      case (not_blocking)
        call MPI_Iscatter(s, m, MPI_INTEGER, r, m, MPI_INTEGER, root, comm, request)
      case default
        if (turn == 1) call MPI_Scatter_init(s, m, MPI_INTEGER, r, m, MPI_INTEGER, root, comm, MPI_INFO_NULL, request)
      end select
      call complete()
      call check(all(r == [(value(root, m * rank + i), i = 1, m)]))
    end do
  end subroutine scatter

  subroutine scatter_parts()
    integer :: i
    call uneven(0)
    call prepare("scatterv", m * ranks, m)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Scatterv(s, counts, places, MPI_INTEGER, r, counts(rank + 1), MPI_INTEGER, 0, comm)
      case (not_blocking)
        call MPI_Iscatterv(s, counts, places, MPI_INTEGER, r, counts(rank + 1), MPI_INTEGER, 0, comm, request)
      case default
        if (turn == 1) call MPI_Scatterv_init(s, counts, places, MPI_INTEGER, r, counts(rank + 1), MPI_INTEGER, 0, comm, &
            MPI_INFO_NULL, request)
      end select
      call complete()
      do i = 1, m
        call check(r(i) == merge(value(0, m * rank + i), -1, i <= counts(rank + 1)))
      end do
    end do
  end subroutine scatter_parts

  subroutine gather_to_all()
    integer :: i, j
    call prepare("allgather", m, m * ranks)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Allgather(s, m, MPI_INTEGER, r, m, MPI_INTEGER, comm)
      case (not_blocking)
        call MPI_Iallgather(s, m, MPI_INTEGER, r, m, MPI_INTEGER, comm, request)
      case default
        if (turn == 1) call MPI_Allgather_init(s, m, MPI_INTEGER, r, m, MPI_INTEGER, comm, MPI_INFO_NULL, request)
      end select
      call complete()
      call check(all(r == [((value(j, i), i = 1, m), j = 0, ranks - 1)]))
    end do
  end subroutine gather_to_all

  subroutine gather_parts_to_all()
    call uneven(0)
    call prepare("allgatherv", m, m * ranks)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Allgatherv(s, counts(rank + 1), MPI_INTEGER, r, counts, places, MPI_INTEGER, comm)
      case (not_blocking)
        call MPI_Iallgatherv(s, counts(rank + 1), MPI_INTEGER, r, counts, places, MPI_INTEGER, comm, request)
      case default
        if (turn == 1) call MPI_Allgatherv_init(s, counts(rank + 1), MPI_INTEGER, r, counts, places, MPI_INTEGER, comm, &
            MPI_INFO_NULL, request)
      end select
      call complete()
      call check(parts(r))
    end do
  end subroutine gather_parts_to_all

  subroutine all_to_all()
    integer :: i, j
    call prepare("alltoall", m * ranks, m * ranks)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Alltoall(s, m, MPI_INTEGER, r, m, MPI_INTEGER, comm)
      case (not_blocking)
        call MPI_Ialltoall(s, m, MPI_INTEGER, r, m, MPI_INTEGER, comm, request)
      case default
        if (turn == 1) call MPI_Alltoall_init(s, m, MPI_INTEGER, r, m, MPI_INTEGER, comm, MPI_INFO_NULL, request)
      end select
      call complete()
      call check(all(r == [((value(j, m * rank + i), i = 1, m), j = 0, ranks - 1)]))
    end do
  end subroutine all_to_all

  subroutine parts_all_to_all()
    integer :: i, j
    do j = 1, ranks
      counts(j) = mod(j + rank, m)
      places(j) = (j - 1) * m
    end do
    call prepare("alltoallv", m * ranks, m * ranks)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Alltoallv(s, counts, places, MPI_INTEGER, r, counts, places, MPI_INTEGER, comm)
      case (not_blocking)
        call MPI_Ialltoallv(s, counts, places, MPI_INTEGER, r, counts, places, MPI_INTEGER, comm, request)
      case default
        if (turn == 1) call MPI_Alltoallv_init(s, counts, places, MPI_INTEGER, r, counts, places, MPI_INTEGER, comm, &
            MPI_INFO_NULL, request)
      end select
      call complete()
      do j = 1, ranks
        do i = 1, m
          call check(r((j - 1) * m + i) == merge(value(j - 1, m * rank + i), -1, i <= counts(j)))
        end do
      end do
    end do
  end subroutine parts_all_to_all

  subroutine parts_of_types_all_to_all()
    integer :: i, j
    do j = 1, ranks
      counts(j) = mod(j + rank, m)
      bytes(j) = (j - 1) * m * 4
    end do
    call prepare("alltoallw", m * ranks, m * ranks)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Alltoallw(s, counts, bytes, types, r, counts, bytes, types, comm)
      case (not_blocking)
        call MPI_Ialltoallw(s, counts, bytes, types, r, counts, bytes, types, comm, request)
      case default
        if (turn == 1) call MPI_Alltoallw_init(s, counts, bytes, types, r, counts, bytes, types, comm, MPI_INFO_NULL, request)
      end select
      call complete()
      do j = 1, ranks
        do i = 1, m
          call check(r((j - 1) * m + i) == merge(value(j - 1, m * rank + i), -1, i <= counts(j)))
        end do
      end do
    end do
  end subroutine parts_of_types_all_to_all

  ! The sum over the ranks up to this.
  integer function total(last, index)
    integer, intent(in) :: last, index
    integer :: j
    total = sum([(value(j, index), j = 0, last)])
  end function total

  subroutine reduce()
    integer :: root, i
    root = ranks / 2
    call prepare("reduce", m, m)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Reduce(s, r, m, MPI_INTEGER, MPI_SUM, root, comm)
      case (not_blocking)
        call MPI_Ireduce(s, r, m, MPI_INTEGER, MPI_SUM, root, comm, request)
      case default
        if (turn == 1) call MPI_Reduce_init(s, r, m, MPI_INTEGER, MPI_SUM, root, comm, MPI_INFO_NULL, request)
      end select
      call complete()
      if (rank == root) then
        call check(all(r == [(total(ranks - 1, i), i = 1, m)]))
      else
        call check(all(r == -1))
      end if
    end do
  end subroutine reduce

  subroutine reduce_to_all()
    integer :: i
    call prepare("allreduce", m, m)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Allreduce(s, r, m, MPI_INTEGER, MPI_SUM, comm)
      case (not_blocking)
        call MPI_Iallreduce(s, r, m, MPI_INTEGER, MPI_SUM, comm, request)
      case default
        if (turn == 1) call MPI_Allreduce_init(s, r, m, MPI_INTEGER, MPI_SUM, comm, MPI_INFO_NULL, request)
      end select
      call complete()
      call check(all(r == [(total(ranks - 1, i), i = 1, m)]))
    end do
  end subroutine reduce_to_all

  subroutine reduce_and_scatter_blocks()
    integer :: i
    call prepare("reduce_scatter_block", m * ranks, m)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Reduce_scatter_block(s, r, m, MPI_INTEGER, MPI_SUM, comm)
      case (not_blocking)
        call MPI_Ireduce_scatter_block(s, r, m, MPI_INTEGER, MPI_SUM, comm, request)
      case default
        if (turn == 1) call MPI_Reduce_scatter_block_init(s, r, m, MPI_INTEGER, MPI_SUM, comm, MPI_INFO_NULL, request)
      end select
      call complete()
      call check(all(r == [(total(ranks - 1, m * rank + i), i = 1, m)]))
    end do
  end subroutine reduce_and_scatter_blocks

  subroutine reduce_and_scatter()
    integer :: i, before
    call uneven(0)
    before = sum(counts(1:rank))
    call prepare("reduce_scatter", sum(counts), m)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Reduce_scatter(s, r, counts, MPI_INTEGER, MPI_SUM, comm)
      case (not_blocking)
        call MPI_Ireduce_scatter(s, r, counts, MPI_INTEGER, MPI_SUM, comm, request)
      case default
        if (turn == 1) call MPI_Reduce_scatter_init(s, r, counts, MPI_INTEGER, MPI_SUM, comm, MPI_INFO_NULL, request)
      end select
      call complete()
      do i = 1, m
        if (i <= counts(rank + 1)) then
          call check(r(i) == total(ranks - 1, before + i))
        else
          call check(r(i) == -1)
        end if
      end do
    end do
  end subroutine reduce_and_scatter

  subroutine scan()
    integer :: i
    call prepare("scan", m, m)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Scan(s, r, m, MPI_INTEGER, MPI_SUM, comm)
      case (not_blocking)
        call MPI_Iscan(s, r, m, MPI_INTEGER, MPI_SUM, comm, request)
      case default
        if (turn == 1) call MPI_Scan_init(s, r, m, MPI_INTEGER, MPI_SUM, comm, MPI_INFO_NULL, request)
      end select
      call complete()
      call check(all(r == [(total(rank, i), i = 1, m)]))
    end do
  end subroutine scan

  subroutine scan_before()
    integer :: i
    call prepare("exscan", m, m)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Exscan(s, r, m, MPI_INTEGER, MPI_SUM, comm)
      case (not_blocking)
        call MPI_Iexscan(s, r, m, MPI_INTEGER, MPI_SUM, comm, request)
      case default
        if (turn == 1) call MPI_Exscan_init(s, r, m, MPI_INTEGER, MPI_SUM, comm, MPI_INFO_NULL, request)
      end select
      call complete()
      if (rank > 0) call check(all(r == [(total(rank - 1, i), i = 1, m)]))
    end do
  end subroutine scan_before

  ! The neighbours on a ring: the one before and the one after.
  subroutine neighbours_gather()
    integer :: i, before, after, from(2)
    before = mod(rank - 1 + ranks, ranks)
    after = mod(rank + 1, ranks)
    call prepare("neighbor_allgather", m, 2 * m)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Neighbor_allgather(s, m, MPI_INTEGER, r, m, MPI_INTEGER, ring)
      case (not_blocking)
        call MPI_Ineighbor_allgather(s, m, MPI_INTEGER, r, m, MPI_INTEGER, ring, request)
      case default
        if (turn == 1) call MPI_Neighbor_allgather_init(s, m, MPI_INTEGER, r, m, MPI_INTEGER, ring, MPI_INFO_NULL, request)
      end select
      call complete()
      call check(all(r == [(value(before, i), i = 1, m), (value(after, i), i = 1, m)]))
    end do
    from = [0, m]
    call prepare("neighbor_allgatherv", m, 2 * m)
    do while (another())
      select case (way)
      case (blocking)
        call MPI_Neighbor_allgatherv(s, 3, MPI_INTEGER, r, [3, 3], from, MPI_INTEGER, ring)
      case (not_blocking)
        call MPI_Ineighbor_allgatherv(s, 3, MPI_INTEGER, r, threes, from_two, MPI_INTEGER, ring, request)
      case default
        if (turn == 1) call MPI_Neighbor_allgatherv_init(s, 3, MPI_INTEGER, r, threes, from_two, MPI_INTEGER, ring, &
            MPI_INFO_NULL, request)
      end select
      call complete()
      call check(all(r(1:3) == [(value(before, i), i = 1, 3)]) .and. all(r(m + 1:m + 3) == [(value(after, i), i = 1, 3)]) &
          .and. all(r(4:5) == -1) .and. all(r(m + 4:) == -1))
    end do
  end subroutine neighbours_gather

  subroutine neighbours_all()
    integer :: i, before, after, form
    before = mod(rank - 1 + ranks, ranks)
    after = mod(rank + 1, ranks)
    far = [0, 4 * m]
    do form = 1, 3
      call prepare("neighbor_alltoall", 2 * m, 2 * m)
      do while (another())
        select case (10 * form + way)
        case (11)
          call MPI_Neighbor_alltoall(s, m, MPI_INTEGER, r, m, MPI_INTEGER, ring)
        case (12)
          call MPI_Ineighbor_alltoall(s, m, MPI_INTEGER, r, m, MPI_INTEGER, ring, request)
        case (13)
          if (turn == 1) call MPI_Neighbor_alltoall_init(s, m, MPI_INTEGER, r, m, MPI_INTEGER, ring, MPI_INFO_NULL, request)
        case (21)
          call MPI_Neighbor_alltoallv(s, fives, from_two, MPI_INTEGER, r, fives, from_two, MPI_INTEGER, ring)
        case (22)
          call MPI_Ineighbor_alltoallv(s, fives, from_two, MPI_INTEGER, r, fives, from_two, MPI_INTEGER, ring, request)
        case (23)
          if (turn == 1) call MPI_Neighbor_alltoallv_init(s, fives, from_two, MPI_INTEGER, r, fives, from_two, MPI_INTEGER, ring, &
              MPI_INFO_NULL, request)
        case (31)
          call MPI_Neighbor_alltoallw(s, fives, far, types, r, fives, far, types, ring)
        case (32)
          call MPI_Ineighbor_alltoallw(s, fives, far, types, r, fives, far, types, ring, request)
        case (33)
          if (turn == 1) call MPI_Neighbor_alltoallw_init(s, fives, far, types, r, fives, far, types, ring, &
              MPI_INFO_NULL, request)
        end select
        call complete()
        call check(all(r == [(value(before, m + i), i = 1, m), (value(after, i), i = 1, m)]))
      end do
    end do
  end subroutine neighbours_all

  ! One buffer is `MPI_IN_PLACE`, the other a section.
  subroutine in_place()
    integer :: i, j
    call prepare("allreduce in place", m, m)
    do while (another())
      r = s
      select case (way)
      case (blocking)
        call MPI_Allreduce(MPI_IN_PLACE, r, m, MPI_INTEGER, MPI_SUM, comm)
      case (not_blocking)
        call MPI_Iallreduce(MPI_IN_PLACE, r, m, MPI_INTEGER, MPI_SUM, comm, request)
      case default
        if (turn == 1) call MPI_Allreduce_init(MPI_IN_PLACE, r, m, MPI_INTEGER, MPI_SUM, comm, MPI_INFO_NULL, request)
      end select
      call complete()
      call check(all(r == [(total(ranks - 1, i), i = 1, m)]))
    end do
    call prepare("gather in place", m, m * ranks)
    do while (another())
      if (rank == 0) r(1:m) = s
      select case (way)
      case (blocking)
        if (rank == 0) then
          call MPI_Gather(MPI_IN_PLACE, m, MPI_INTEGER, r, m, MPI_INTEGER, 0, comm)
        else
          call MPI_Gather(s, m, MPI_INTEGER, r, m, MPI_INTEGER, 0, comm)
        end if
      case (not_blocking)
        if (rank == 0) then
          call MPI_Igather(MPI_IN_PLACE, m, MPI_INTEGER, r, m, MPI_INTEGER, 0, comm, request)
        else
          call MPI_Igather(s, m, MPI_INTEGER, r, m, MPI_INTEGER, 0, comm, request)
        end if
      case default
        if (turn == 1) then
          if (rank == 0) then
            call MPI_Gather_init(MPI_IN_PLACE, m, MPI_INTEGER, r, m, MPI_INTEGER, 0, comm, MPI_INFO_NULL, request)
          else
            call MPI_Gather_init(s, m, MPI_INTEGER, r, m, MPI_INTEGER, 0, comm, MPI_INFO_NULL, request)
          end if
        end if
      end select
      call complete()
      if (rank == 0) call check(all(r == [((value(j, i), i = 1, m), j = 0, ranks - 1)]))
    end do
    call prepare("scatter in place", m * ranks, m)
    do while (another())
      select case (way)
      case (blocking)
        if (rank == 0) then
          call MPI_Scatter(s, m, MPI_INTEGER, MPI_IN_PLACE, m, MPI_INTEGER, 0, comm)
        else
          call MPI_Scatter(s, m, MPI_INTEGER, r, m, MPI_INTEGER, 0, comm)
        end if
      case (not_blocking)
        if (rank == 0) then
          call MPI_Iscatter(s, m, MPI_INTEGER, MPI_IN_PLACE, m, MPI_INTEGER, 0, comm, request)
        else
          call MPI_Iscatter(s, m, MPI_INTEGER, r, m, MPI_INTEGER, 0, comm, request)
        end if
      case default
        if (turn == 1) then
          if (rank == 0) then
            call MPI_Scatter_init(s, m, MPI_INTEGER, MPI_IN_PLACE, m, MPI_INTEGER, 0, comm, MPI_INFO_NULL, request)
          else
            call MPI_Scatter_init(s, m, MPI_INTEGER, r, m, MPI_INTEGER, 0, comm, MPI_INFO_NULL, request)
          end if
        end if
      end select
      call complete()
      if (rank /= 0) call check(all(r == [(value(0, m * rank + i), i = 1, m)]))
    end do
  end subroutine in_place

  subroutine local()
    integer :: from(3, 8), to(2, 8)
    name = "reduce_local"
    from = 3
    to = 4
    call MPI_Reduce_local(from(2, :), to(1, 8:1:-1), 8, MPI_INTEGER, MPI_PROD)
    r => flat_receive
    call check(all(to(1, :) == 12) .and. all(to(2, :) == 4))
  end subroutine local
end program sections_collectives
