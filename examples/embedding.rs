//! Weft inside a Rust program, without the C bindings. Each process tells all others its rank, and a token goes round:
//!
//!     cargo build --release --example embedding
//!     target/release/mpiexec -n 3 target/release/examples/embedding

use weft::Result;
use weft::embedding::{Host, Lifetime, WorldModel, collective};

static LIFETIME: Lifetime = Lifetime::new(Host::PLAIN);
static WORLD_MODEL: WorldModel = WorldModel::new();

/// Each rank runs this.
pub fn main() -> Result<()> {
    WORLD_MODEL.initialize(&LIFETIME, false, &())?;
    let sum = run()?;
    WORLD_MODEL.finalize(&LIFETIME, &())?;
    LIFETIME.close_at_rest();
    if let Some(sum) = sum {
        println!("the ranks add up to {sum}");
    }
    Ok(())
}

/// The sum of all ranks, at rank 0.
fn run() -> Result<Option<u32>> {
    let world = WORLD_MODEL.world().expect("it was initialized");
    let (instance, everybody) = (&world.instance, &world.world);
    let (rank, size) = (everybody.rank(), everybody.size());

    let ranks = instance.block_on(async {
        collective::allgather_bytes(&everybody.collective(), &rank.to_le_bytes()).await
    })?;
    let sum: u32 = ranks
        .as_chunks()
        .0
        .iter()
        .map(|rank| u32::from_le_bytes(*rank))
        .sum();

    let messages = everybody.collective();
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    let token = instance.block_on(messages.exchange_bytes(to, vec![rank as u8], from, 1))?;
    assert_eq!(u32::from(token[0]), from % 256);

    instance.block_on(collective::barrier(&everybody.collective()))?;
    Ok((rank == 0).then_some(sum))
}
