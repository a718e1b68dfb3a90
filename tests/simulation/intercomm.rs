//! Intercommunicators on random splits of the processes: made in each of the ways, used for messages and for many
//! collective operations at a time, and then for making others.

use std::sync::Arc;

use fastrand::Rng;
use weft::abi::common::constants::MPI_SUM;
use weft::base::error::{Class, Result};
use weft::data::datatype::Datatype;
use weft::data::op::Op;
use weft::engine::request::{Outcome, RequestId};
use weft::identity::PeerIndex;
use weft::objects::collective::{self, Buffer, Operands, Root, VBuffer};
use weft::objects::communicator::{Collective, Communicator};
use weft::objects::group::Group;
use weft::objects::management::Bridge;
use weft::sim::{Options, Rank, Simulation, check};

/// Two groups of processes, by rank; whoever is in neither looks on.
#[derive(Clone, Debug)]
struct Sides([Vec<PeerIndex>; 2]);

impl Sides {
    /// Two that are not empty, in any order.
    fn random(rng: &mut Rng, size: u32) -> Sides {
        let mut processes: Vec<PeerIndex> = (0..size).map(PeerIndex::new).collect();
        rng.shuffle(&mut processes);
        let first = rng.usize(1..processes.len());
        let second = rng.usize(first + 1..=processes.len());
        Sides([processes[..first].to_vec(), processes[first..second].to_vec()])
    }

    /// Side and rank of a process.
    fn place(&self, process: PeerIndex) -> Option<(usize, usize)> {
        (0..2).find_map(|side| {
            let rank = self.0[side].iter().position(|&member| member == process)?;
            Some((side, rank))
        })
    }

    /// What a communicator between them is like at this process.
    fn hold(&self, communicator: &Communicator, me: PeerIndex) {
        let (side, rank) = self.place(me).expect("a member has it");
        assert!(communicator.is_inter());
        assert_eq!(communicator.rank() as usize, rank);
        assert!(communicator.group().iter().eq(self.0[side].iter().copied()));
        assert!(communicator.peers().iter().eq(self.0[1 - side].iter().copied()));
    }

    /// Those of these places in each side, in this order; `None`: one side has none.
    fn only(&self, mut chosen: impl FnMut(usize, &[PeerIndex]) -> Vec<PeerIndex>) -> Option<Sides> {
        let sides = [chosen(0, &self.0[0]), chosen(1, &self.0[1])];
        sides.iter().all(|side| !side.is_empty()).then_some(Sides(sides))
    }
}

/// The intercommunicator of the sides, made of communicators or of groups.
async fn make(rank: &Rank, rng: &mut Rng, sides: &Sides, number: i32) -> Option<Arc<Communicator>> {
    let by_groups = rng.bool();
    let leaders = [0, 1].map(|side| rng.usize(..sides.0[side].len()));
    let place = sides.place(rank.me());
    if by_groups {
        let (side, _) = place?;
        let group = Group::of(sides.0[side].clone());
        let leader = sides.0[1 - side][leaders[1 - side]];
        let made = Communicator::between_groups(
            rank.instance().clone(),
            group,
            leaders[side] as u32,
            Ok(leader),
            "the sides",
        );
        return Some(made.await.unwrap());
    }
    let (color, key) = match place {
        Some((side, at)) => (side as i32, at as i32),
        None => (-32766, 0),
    };
    let local = rank.world().clone().split(color, key).await.unwrap()?;
    let (side, at) = place.expect("it has a color");
    let leader = sides.0[1 - side][leaders[1 - side]].number() as i32;
    let bridge = (at == leaders[side]).then(|| Bridge::over(rank.world(), leader, number));
    Some(local.connect(leaders[side] as u32, bridge).await.unwrap())
}

/// What process `process` has at `index` in operation `number`.
fn value(number: usize, process: PeerIndex, index: usize) -> i32 {
    (number * 7919 + process.index() * 104_729 + index * 31) as i32
}

fn values(number: usize, process: PeerIndex, range: std::ops::Range<usize>) -> Vec<i32> {
    range.map(|index| value(number, process, index)).collect()
}

/// The values of processes added up.
fn sums(number: usize, processes: &[PeerIndex], range: std::ops::Range<usize>) -> Vec<i32> {
    let sum = |index| {
        processes.iter().fold(0i32, |sum, &process| {
            sum.wrapping_add(value(number, process, index))
        })
    };
    range.map(sum).collect()
}

/// So many values for each of some ranks.
fn buffer(values: &mut [i32], count: usize, ranks: usize) -> Buffer {
    assert_eq!(values.len(), count * ranks);
    let datatype = Datatype::int32().clone();
    // SAFETY: the callers keep the values until the operation has ended.
    unsafe { Buffer::new(values.as_mut_ptr().cast(), count as u64, ranks as u32, datatype) }
}

fn vbuffer(values: &mut [i32], counts: &[usize]) -> VBuffer {
    let mut end = 0;
    let displs = counts.iter().map(|&count| {
        end += count;
        (end - count) as i64
    });
    let displs = displs.collect();
    assert_eq!(values.len(), end);
    let counts = counts.iter().map(|&count| count as u64).collect();
    // SAFETY: the callers keep the values until the operation has ended.
    unsafe {
        VBuffer::new(
            values.as_mut_ptr().cast(),
            counts,
            displs,
            Datatype::int32().clone(),
        )
    }
}

/// The sum of what the ranks send, which has as many values as there is room for.
fn summed(send: Option<&mut [i32]>, receive: Option<&mut [i32]>) -> Operands {
    let count = send
        .as_ref()
        .or(receive.as_ref())
        .map_or(0, |values| values.len() as u64);
    let result = receive.as_ref().map_or(0, |values| values.len() as u64);
    let (send, receive) = (
        send.map(|values| values.as_ptr().cast()),
        receive.map(|values| values.as_mut_ptr().cast()),
    );
    let op = Op::predefined(MPI_SUM).expect("there is an MPI_SUM").clone();
    // SAFETY: the callers keep the values until the operation has ended.
    unsafe { Operands::new(send, receive, count, result, Datatype::int32().clone(), op) }
}

/// One operation, of a kind and a count that all know; gives an error or panics where its result is wrong.
struct Call {
    operation: Collective,
    number: usize,
    me: PeerIndex,
    /// This process's group, its rank there, and the other group.
    mine: Vec<PeerIndex>,
    rank: usize,
    theirs: Vec<PeerIndex>,
    /// The root's part, where there is one.
    root: Option<Root>,
    /// The root process.
    from: PeerIndex,
    count: usize,
}

const KINDS: u32 = 10;

impl Call {
    /// The blocks of `mine` or `theirs` that differ: rank `r` has `count × (r % 3)`.
    fn uneven(&self, ranks: usize) -> Vec<usize> {
        (0..ranks).map(|rank| self.count * (rank % 3)).collect()
    }

    async fn run(self, kind: u32) -> Result<()> {
        match kind {
            0 => collective::barrier(&self.operation).await,
            1..=4 => match self.root {
                Some(root) => self.rooted(kind, root).await,
                None => Ok(()),
            },
            5 | 6 => self.allgather(kind == 5).await,
            7 => self.alltoall().await,
            8 => self.allreduce().await,
            _ => self.reduce_scatter().await,
        }
    }

    async fn rooted(self, kind: u32, root: Root) -> Result<()> {
        let (number, count, operation) = (self.number, self.count, &self.operation);
        let (at_root, others) = (root == Root::Here, self.theirs.len());
        match kind {
            1 => {
                let mut bytes = match at_root {
                    true => values(number, self.me, 0..count),
                    false => vec![-1; count],
                };
                collective::bcast(operation, root, buffer(&mut bytes, count, 1)).await?;
                assert_eq!(bytes, values(number, self.from, 0..count));
            }
            2 => {
                let counts = self.uneven(others);
                let own = self.count * (self.rank % 3);
                let mut send = values(number, self.me, 0..own);
                let mut all = vec![-1; counts.iter().sum()];
                let receive = at_root.then(|| vbuffer(&mut all, &counts));
                let send = (!at_root).then(|| buffer(&mut send, own, 1));
                collective::gatherv(operation, root, send, receive).await?;
                if at_root {
                    let expected = self.theirs.iter().zip(counts);
                    let expected = expected.flat_map(|(&process, count)| values(number, process, 0..count));
                    assert!(all.into_iter().eq(expected));
                }
            }
            3 => {
                let mut all = values(number, self.me, 0..count * others);
                let mut own = vec![-1; count];
                let send = at_root.then(|| buffer(&mut all, count, others));
                let receive = (!at_root).then(|| buffer(&mut own, count, 1));
                collective::scatter(operation, root, send, receive).await?;
                if !at_root {
                    let first = self.rank * count;
                    assert_eq!(own, values(number, self.from, first..first + count));
                }
            }
            _ => {
                let mut own = values(number, self.me, 0..count);
                let mut all = vec![-1; count];
                let send = (!at_root).then_some(&mut own[..]);
                let receive = at_root.then_some(&mut all[..]);
                collective::reduce(operation, root, summed(send, receive)).await?;
                if at_root {
                    assert_eq!(all, sums(number, &self.theirs, 0..count));
                }
            }
        }
        Ok(())
    }

    async fn allgather(self, even: bool) -> Result<()> {
        let (others, number) = (self.theirs.len(), self.number);
        let counts = match even {
            true => vec![self.count; others],
            false => self.uneven(others),
        };
        let own = match even {
            true => self.count,
            false => self.count * (self.rank % 3),
        };
        let mut send = values(number, self.me, 0..own);
        let mut all = vec![-1; counts.iter().sum()];
        let send = Some(buffer(&mut send, own, 1));
        match even {
            true => {
                collective::allgather(&self.operation, send, buffer(&mut all, self.count, others)).await?
            }
            false => collective::allgatherv(&self.operation, send, vbuffer(&mut all, &counts)).await?,
        }
        let expected = self.theirs.iter().zip(counts);
        assert!(
            all.into_iter()
                .eq(expected.flat_map(|(&process, count)| values(number, process, 0..count)))
        );
        Ok(())
    }

    async fn alltoall(self) -> Result<()> {
        let (others, number, count) = (self.theirs.len(), self.number, self.count);
        let mut send = values(number, self.me, 0..count * others);
        let mut all = vec![-1; count * others];
        let out = buffer(&mut send, count, others);
        collective::alltoall(&self.operation, Some(out), buffer(&mut all, count, others)).await?;
        let mine = self.rank * count..(self.rank + 1) * count;
        let expected = self
            .theirs
            .iter()
            .flat_map(|&process| values(number, process, mine.clone()));
        assert!(all.into_iter().eq(expected));
        Ok(())
    }

    async fn allreduce(self) -> Result<()> {
        let (number, count) = (self.number, self.count);
        let mut own = values(number, self.me, 0..count);
        let mut all = vec![-1; count];
        let given = summed(Some(&mut own), Some(&mut all));
        collective::allreduce(&self.operation, given).await?;
        assert_eq!(all, sums(number, &self.theirs, 0..count));
        Ok(())
    }

    async fn reduce_scatter(self) -> Result<()> {
        let number = self.number;
        let block = self.count * self.theirs.len();
        let mut own = values(number, self.me, 0..block * self.mine.len());
        let mut all = vec![-1; block];
        let given = summed(Some(&mut own), Some(&mut all));
        collective::reduce_scatter_block(&self.operation, given).await?;
        let first = self.rank * block;
        assert_eq!(all, sums(number, &self.theirs, first..first + block));
        Ok(())
    }
}

/// Starts an operation that all choose alike.
fn start(
    rank: &Rank,
    common: &mut Rng,
    inter: &Arc<Communicator>,
    sides: &Sides,
    number: usize,
) -> RequestId {
    let kind = common.u32(..KINDS);
    let count = common.usize(..12) * [1, 1, 1, 80, 900][common.usize(..5)];
    let root_side = common.usize(..2);
    let root_rank = common.usize(..sides.0[root_side].len());
    let (side, at) = sides.place(rank.me()).expect("a member");
    let call = Call {
        operation: inter.collective(),
        number,
        me: rank.me(),
        mine: sides.0[side].clone(),
        rank: at,
        theirs: sides.0[1 - side].clone(),
        root: match side == root_side {
            false => Some(Root::Rank(root_rank as u32)),
            true if at == root_rank => Some(Root::Here),
            true => None,
        },
        from: sides.0[root_side][root_rank],
        count,
    };
    rank.instance().spawn(Box::pin(async move {
        call.run(kind).await?;
        Ok(Outcome::EMPTY)
    }))
}

/// Messages both ways beside collective operations, ended in any order.
async fn traffic(
    rank: &Rank,
    common: &mut Rng,
    own: &mut Rng,
    inter: &Arc<Communicator>,
    sides: &Sides,
    operations: usize,
) {
    let (side, at) = sides.place(rank.me()).expect("a member");
    let theirs = &sides.0[1 - side];
    let mut under_way = Vec::new();
    let texts: Vec<_> = theirs
        .iter()
        .map(|_| rank.buffer(&rank.me().number().to_le_bytes()))
        .collect();
    for number in 0..operations {
        under_way.push(start(rank, common, inter, sides, number));
        if number == operations / 2 {
            for (to, text) in texts.iter().enumerate() {
                // SAFETY: the text lives until the request has ended, below.
                let sent = unsafe { inter.send(to as u32, at as i32, text.memory(), own.bool(), true) };
                under_way.push(sent.unwrap().expect("a request was asked for"));
            }
        }
        match own.u32(..5) {
            0 => rank.turn().await,
            1 => rank.pause(1 << own.u32(..13)).await,
            _ => {}
        }
    }
    // From any source, or from each by name.
    let by_name = own.bool();
    let mut seen = vec![false; theirs.len()];
    for from in 0..theirs.len() {
        let room = rank.blank(4);
        let named = by_name.then_some(from as u32);
        // SAFETY: the room lives until the receive has ended, in the next line.
        let received = unsafe { inter.receive(named, None, room.memory()) }.unwrap();
        let outcome = rank.received(received).await;
        assert_eq!(outcome.error, None);
        let source = outcome.source as usize;
        assert_eq!(outcome.tag, source as i32);
        assert_eq!(room.bytes(), theirs[source].number().to_le_bytes());
        assert!(!std::mem::replace(&mut seen[source], true), "rank {source} twice");
    }
    own.shuffle(&mut under_way);
    for request in under_way {
        assert_eq!(rank.wait(request).await.error, None);
    }
}

/// Others made of this one.
async fn derive(
    rank: &Rank,
    common: &mut Rng,
    inter: &Arc<Communicator>,
    sides: &Sides,
) -> Option<(Arc<Communicator>, Sides)> {
    let me = rank.me();
    let (side, _) = sides.place(me).expect("a member");
    match common.u32(..3) {
        0 => {
            // Now and then one process is not ready, and then nobody gets a duplicate.
            let unready = (common.u32(..3) == 0).then(|| {
                let side = &sides.0[common.usize(..2)];
                side[common.usize(..side.len())]
            });
            let made = inter.clone().duplicate(unready != Some(me)).await;
            match unready {
                Some(_) => {
                    assert_eq!(made.err().map(|error| error.class), Some(Class::Other));
                    None
                }
                None => Some((made.unwrap(), sides.clone())),
            }
        }
        1 => {
            // Everybody knows everybody's color and key, for the model's sake.
            let said: Vec<(i32, i32)> = (0..rank.world().size())
                .map(|_| (common.i32(..3), common.i32(-2..3)))
                .collect();
            let of = |process: PeerIndex| match said[process.index()] {
                (2, key) => (-32766, key),
                other => other,
            };
            let (color, key) = of(me);
            let made = inter.clone().split(color, key).await.unwrap();
            let expected = sides.only(|_, members| {
                let mut same: Vec<PeerIndex> = members
                    .iter()
                    .copied()
                    .filter(|&member| of(member).0 == color)
                    .collect();
                same.sort_by_key(|&member| of(member).1);
                same
            });
            match (made, color) {
                (made, -32766) => {
                    assert!(made.is_none());
                    None
                }
                (None, _) => {
                    assert!(expected.is_none(), "{expected:?} got no communicator");
                    None
                }
                (Some(made), _) => Some((made, expected.expect("one side has nobody of the color"))),
            }
        }
        _ => {
            let parts = sides.only(|_, members| {
                let mut some = members.to_vec();
                common.shuffle(&mut some);
                some.truncate(common.usize(..=some.len()));
                some
            });
            // Where one side has none, the other may have some all the same.
            let parts_or_none = parts.clone().map_or_else(Vec::new, |parts| parts.0[side].clone());
            let made = inter.clone().create(Group::of(parts_or_none)).await.unwrap();
            match parts.filter(|parts| parts.place(me).is_some()) {
                Some(parts) => Some((made.expect("a member"), parts)),
                None => {
                    assert!(made.is_none());
                    None
                }
            }
        }
    }
}

async fn merge(rank: &Rank, common: &mut Rng, inter: &Arc<Communicator>, sides: &Sides) {
    let high = [common.bool(), common.bool()];
    let (side, _) = sides.place(rank.me()).expect("a member");
    let merged = inter.clone().merge(high[side]).await.unwrap();
    let in_order = |first: usize| {
        merged.group().iter().eq([first, 1 - first]
            .iter()
            .flat_map(|&side| sides.0[side].iter().copied()))
    };
    match high {
        [false, true] => assert!(in_order(0)),
        [true, false] => assert!(in_order(1)),
        _ => assert!(in_order(0) || in_order(1)),
    }
    assert!(!merged.is_inter());
    let mine = merged.rank().to_le_bytes();
    let all = collective::allgather_bytes(&merged.collective(), &mine)
        .await
        .unwrap();
    assert!(
        all.chunks(4)
            .zip(0u32..)
            .all(|(said, rank)| said == rank.to_le_bytes())
    );
}

async fn program(rank: Rank, seed: u64) {
    let mut common = Rng::with_seed(seed);
    let mut own = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40);
    for number in 0..3 {
        // Members and lookers-on go on with the same numbers.
        let mut round = common.fork();
        let sides = Sides::random(&mut round, rank.world().size());
        let Some(inter) = make(&rank, &mut round, &sides, number).await else {
            continue;
        };
        sides.hold(&inter, rank.me());
        traffic(&rank, &mut round, &mut own, &inter, &sides, 12).await;
        merge(&rank, &mut round, &inter, &sides).await;
        let mut later = round.fork();
        if let Some((derived, sides)) = derive(&rank, &mut round, &inter, &sides).await {
            sides.hold(&derived, rank.me());
            traffic(&rank, &mut later, &mut own, &derived, &sides, 4).await;
            collective::barrier(&derived.disconnect_barrier()).await.unwrap();
        }
        collective::barrier(&inter.disconnect_barrier()).await.unwrap();
    }
}

#[test]
fn intercommunicators_of_random_splits() {
    check("intercommunicators_of_random_splits", 40, |seed| {
        let ranks = [2, 3, 4, 5, 8, 13][(seed % 6) as usize];
        Simulation::new(seed, ranks, Options::random(seed)).run(|rank| program(rank, seed));
    });
}

/// Groups that have a process in common, and a leader that is not there: each is an error of all, and of its class.
#[test]
fn no_process_waits_for_a_leader_that_has_failed() {
    check("no_process_waits_for_a_leader_that_has_failed", 40, |seed| {
        let ranks = [1, 2, 3, 5, 8][(seed % 5) as usize];
        Simulation::new(seed, ranks, Options::random(seed)).run(|rank| async move {
            let leader = seed as u32 % ranks;
            let world = rank.world();
            let is_leader = rank.me().number() == leader;
            for (to, class) in [
                (leader as i32, Class::Comm),
                (ranks as i32, Class::Rank),
                (-1, Class::Rank),
            ] {
                let bridge = is_leader.then(|| Bridge::over(world, to, 7));
                let failed = world.clone().connect(leader, bridge).await;
                assert_eq!(failed.err().map(|error| error.class), Some(class));
            }
            let all = Group::first(ranks);
            let instance = rank.instance().clone();
            let failed =
                Communicator::between_groups(instance, all, leader, Ok(PeerIndex::new(leader)), "us").await;
            assert_eq!(failed.err().map(|error| error.class), Some(Class::Comm));
        });
    });
}
