#!/usr/bin/env python3
"""Sends a day's load to a gateway in minutes, and says what its clusters took and how long queries did.

    day.py PORT SCALE [QUERIES]

PORT is the gateway's on this machine; SCALE is the `time_scale` of its simulated clusters: with 240 a day takes six minutes. A
hundred queries of TPC-DS come as a day has them, few by night and most in office hours (seed 1). Needs psycopg 3.
"""
import asyncio, json, math, random, sys, time
import psycopg

port, scale = int(sys.argv[1]), float(sys.argv[2])
queries = int(sys.argv[3]) if len(sys.argv) > 3 else 3000
CLIENTS, DAY = 96, 86_400.0


def rate(hour):
    """How busy an hour is: 0.15 by night, up to 1 about eleven and three."""
    return 0.15 + 0.85 * max(math.exp(-(((hour - 11) / 2.2) ** 2)), math.exp(-(((hour - 15.5) / 2.2) ** 2)))


def arrivals():
    luck, found = random.Random(1), []
    while len(found) < queries:
        at = luck.uniform(0, DAY)
        if luck.random() < rate(at / 3600):
            found.append((at, luck.randint(1, 99)))
    return sorted(found)


async def main():
    address = f"host=127.0.0.1 port={port} user=day dbname=day"
    free = asyncio.Queue()
    for _ in range(CLIENTS):
        free.put_nowait(await psycopg.AsyncConnection.connect(address, autocommit=True))
    took, failed, hours, began = [], 0, 0.0, time.monotonic()

    async def watch():
        """Adds up the hours of clusters that are there."""
        nonlocal hours
        connection = await psycopg.AsyncConnection.connect(address, autocommit=True)
        there, last = "select count(*) from punctual.clusters where phase not in ('gone', 'failed')", began
        while True:
            count = (await (await connection.execute(there)).fetchone())[0]
            now = time.monotonic()
            hours, last = hours + count * (now - last) * scale / 3600, now
            await asyncio.sleep(0.1)

    async def ask(due, number):
        nonlocal failed
        connection = await free.get()
        try:
            await connection.execute(f"select {number} from t /* tpcds:{number} */", prepare=False)
            took.append((time.monotonic() - due) * scale)
        except psycopg.Error as error:
            failed += 1
            print(error, file=sys.stderr)
        free.put_nowait(connection)

    tasks, watching = [], asyncio.ensure_future(watch())
    for at, number in arrivals():
        due = began + at / scale
        await asyncio.sleep(max(0, due - time.monotonic()))
        tasks.append(asyncio.ensure_future(ask(due, number)))
    await asyncio.gather(*tasks)
    await asyncio.sleep(max(0, began + DAY / scale - time.monotonic()))
    watching.cancel()
    connection = await free.get()
    costs = await (await connection.execute("select sum(cost_usd) from punctual.clusters")).fetchone()
    took.sort()
    quantile = lambda share: round(took[min(len(took) - 1, int(share * len(took)))], 1)
    print(json.dumps({
        "queries": len(took), "failed": failed, "mean_s": round(sum(took) / len(took), 1),
        "p50_s": quantile(0.5), "p90_s": quantile(0.9), "p99_s": quantile(0.99),
        "late": round(sum(took > 120 for took in took) / len(took), 4),
        "cluster_hours": round(hours, 1), "cost_usd_of_real_time": round(costs[0], 5),
    }))

asyncio.run(main())
