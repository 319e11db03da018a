# SQLite in memory and on disk through Python's module, from several threads: the results are a function of the
# input, so they are the same under every heap. Runs in an empty directory.
import hashlib
import json
import sqlite3
import threading


def load(path, seed, results):
    db = sqlite3.connect(path, timeout=60)
    db.execute("create table t (id integer primary key, k integer, body text, data blob)")
    db.execute("create index k on t (k)")
    with db:
        for i in range(6000):
            k = (i * 7919 + seed) % 1009
            db.execute("insert into t values (?, ?, ?, ?)", (i, k, "x" * (k % 700), bytes(k % 256 for _ in range(k % 90))))
    with db:
        db.execute("update t set body = body || 'tail' where k % 3 = 0")
        db.execute("delete from t where k % 5 = 0")
    digest = hashlib.sha256()
    for row in db.execute("select id, k, length(body), hex(data) from t order by k desc, id"):
        digest.update(json.dumps(row).encode())
    for row in db.execute("select k, count(*), group_concat(substr(body, 1, 20)) from t group by k having count(*) > 2"):
        digest.update(repr(row).encode())
    assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    db.close()
    results[seed] = digest.hexdigest()


results = {}
threads = [threading.Thread(target=load, args=(":memory:" if i % 2 else f"disk{i}.db", i, results)) for i in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for seed in sorted(results):
    print(seed, results[seed])
documents = [{"id": i, "tags": ["t" * (i % 50)] * (i % 13), "nested": {"a": i / 7, "b": None}} for i in range(20000)]
text = json.dumps(documents)
assert json.loads(text) == documents
print(len(results), len(text), hashlib.sha256(text.encode()).hexdigest())
