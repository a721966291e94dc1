-- Accesses that count by dwell's definitions: setting memory to one value keeps nothing that anybody will read.
create or replace view accesses as
select run, sample_id, timestamp_ns::bigint as timestamp_ns, op_type, region_type, region_id, step, symbol, address,
       address + size_bytes as end_address, size_bytes
from trace where symbol <> 'ggml_backend_buffer_clear';

-- Accesses cut at the ends of all accesses of their run: two pieces hold the same bytes, or none in common.
create or replace view pieces as
with cuts as (
  select run, address as cut from accesses where size_bytes > 0
  union
  select run, end_address from accesses where size_bytes > 0
), cells as (
  select run, row_number() over cells_of_run as cell, cut as address, lead(cut) over cells_of_run - cut as bytes
  from cuts window cells_of_run as (partition by run order by cut)
), covered as (
  select accesses.* exclude (address, end_address, size_bytes), unnest(range(first_cell.cell, next_cell.cell)) as cell
  from accesses
  join cells as first_cell on first_cell.run = accesses.run and first_cell.address = accesses.address
  join cells as next_cell on next_cell.run = accesses.run and next_cell.address = accesses.end_address
  where size_bytes > 0
)
select covered.* exclude (cell), cells.address, cells.bytes from covered join cells using (run, cell);

-- Lives of data: from a store, or from the first load of what was there before, to the next store.
create or replace view traced_lives as
with numbered as (
  select *, sum((op_type = 'store')::int) over accesses_of_bytes as life
  from pieces
  window accesses_of_bytes as (partition by run, address order by timestamp_ns, sample_id rows unbounded preceding)
), lives as (
  select run, address, bytes, life,
    arg_min(region_type, (timestamp_ns, sample_id)) as region_type,
    arg_min(region_id, (timestamp_ns, sample_id)) as region_id,
    min(timestamp_ns) as begin_ns,
    max(timestamp_ns) filter (op_type = 'load') as last_load_ns,
    count(*) filter (op_type = 'load') as loads,
    life = 0 or arg_min(symbol, (timestamp_ns, sample_id)) in ('mmap', 'read') as is_inferred
  from numbered group by run, address, bytes, life
)
select run, region_type, region_id, address, bytes, begin_ns, last_load_ns, loads, is_inferred,
       lead(begin_ns) over (partition by run, address order by life) as end_ns
from lives;

-- The same, with the lives of KV blocks where a run has them. `end_ns` is null for a life that had not ended.
create or replace view data_lives as
with runs_with_blocks as (select distinct run from kv_block_lifecycle)
select * from traced_lives where region_type <> 'kv_cache' or run not in (from runs_with_blocks)
union all by name
select run, 'kv_cache' as region_type, address, bytes, write_ns as begin_ns, last_read_ns as last_load_ns,
       total_reads as loads, begin_cause = 'inherited' as is_inferred, evict_ns as end_ns
from kv_block_lifecycle;

-- How long lives last: `retention` from the store to the last load, `residency` to the next store or the eviction.
create or replace view life_spans as
with ends as (select run, max(timestamp_ns)::bigint as last_ns from trace group by run)
select run, region_type, 'retention' as kind, last_load_ns - begin_ns as span_ns, bytes, end_ns is null as is_open
from data_lives where loads > 0
union all
select run, region_type, 'residency', coalesce(end_ns, last_ns) - begin_ns, bytes, end_ns is null
from data_lives join ends using (run);

-- Kaplan–Meier: the share of bytes whose life lasts longer than `span_ns`. Open lives are at risk until last seen.
create or replace view survival as
with spans as (
  select run, region_type, kind, span_ns, coalesce(sum(bytes) filter (not is_open), 0) as ended_bytes, sum(bytes) as bytes
  from life_spans group by all
), risk as (
  select *, sum(bytes) over (partition by run, region_type, kind order by span_ns desc) as at_risk_bytes from spans
)
select run, region_type, kind, span_ns, ended_bytes, at_risk_bytes,
       product(1 - ended_bytes / at_risk_bytes) over (partition by run, region_type, kind order by span_ns) as surviving_share
from risk;
