//! Weft inside a Rust program, without the C bindings. Each process tells all others its rank, and a token goes round; then
//! they meet again in a session:
//!
//!     cargo build --release --example embedding
//!     target/release/mpiexec -n 3 target/release/examples/embedding

use weft::Result;
use weft::embedding::{Communicator, Host, Lifetime, Session, WorldModel, allgather_bytes, barrier};

static LIFETIME: Lifetime = Lifetime::new(Host::PLAIN);
static WORLD_MODEL: WorldModel = WorldModel::new();

/// Each rank runs this.
pub fn main() -> Result<()> {
    WORLD_MODEL.initialize(&LIFETIME, false)?;
    let sum = in_the_world()?;
    WORLD_MODEL.finalize(&LIFETIME)?;
    let number = in_a_session()?;
    LIFETIME.close_at_rest();
    if let Some(sum) = sum {
        println!("the {number} ranks add up to {sum}");
    }
    Ok(())
}

/// The sum of all ranks, at rank 0.
fn in_the_world() -> Result<Option<u32>> {
    let world = WORLD_MODEL.world().expect("it was initialized");
    let everybody = world.everybody();
    let (rank, size) = (everybody.rank(), everybody.size());
    let sum = sum(&everybody, rank)?;

    let messages = everybody.collective();
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    let token = everybody.block_on(messages.exchange_bytes(to, vec![rank as u8], from, 1))?;
    assert_eq!(u32::from(token[0]), from % 256);

    everybody.block_on(barrier(&everybody.collective()))?;
    Ok((rank == 0).then_some(sum))
}

/// How many processes meet in a session, after the World Model.
fn in_a_session() -> Result<u32> {
    let session = Session::open(&LIFETIME)?;
    let everybody = session.communicator("mpi://WORLD", "embedding")?;
    let number = sum(&everybody, 1)?;
    session.close()?;
    Ok(number)
}

/// The sum of what the processes come with.
fn sum(all: &Communicator, mine: u32) -> Result<u32> {
    let numbers = all.block_on(allgather_bytes(&all.collective(), &mine.to_le_bytes()))?;
    let numbers = numbers
        .as_chunks()
        .0
        .iter()
        .map(|number| u32::from_le_bytes(*number));
    Ok(numbers.sum())
}
