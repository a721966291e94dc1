-- The metrics by dwell's definitions, of exact traces: docs/metrics.
create or replace view metric_read_frequency as
with counted as (
  select run, region_type, count(*) filter (op_type = 'load') as loads, count(*) filter (op_type = 'store') as stores,
    coalesce(sum(size_bytes) filter (op_type = 'load'), 0)::bigint as bytes_read,
    coalesce(sum(size_bytes) filter (op_type = 'store'), 0)::bigint as bytes_written
  from accesses group by all
), read as (select run, region_type, sum(loads * bytes) / sum(bytes) as reads_per_write_mean from data_lives group by all)
select *, bytes_read / nullif(bytes_written, 0) as read_write_ratio from counted left join read using (run, region_type);

create or replace view metric_write_once as
with stored as (
  select run, region_type, address, bytes, count(*) as stores from data_lives group by all
)
select run, region_type, coalesce(sum(bytes) filter (stores = 1), 0) / sum(bytes) as write_once_ratio
from stored group by all;

create or replace view metric_working_set as
with touched as (select distinct run, region_type, address, bytes from pieces), pages as (
  select run, region_type, unnest(range((address >> 12)::bigint, ((address + bytes - 1) >> 12)::bigint + 1)) as page
  from touched
), counted as (select run, region_type, count(distinct page) as unique_pages from pages group by all)
select run, region_type, sum(bytes)::bigint as distinct_bytes, any_value(unique_pages) as unique_pages
from touched join counted using (run, region_type) group by all;

create or replace view metric_locality as
with followed as (
  select run, region_type, address, size_bytes, lag(address) over rows_of_type as before, lag(end_address) over rows_of_type as before_end
  from accesses window rows_of_type as (partition by run, region_type order by timestamp_ns, sample_id)
), strides as (select *, abs(address::hugeint - before::hugeint) as stride_bytes from followed where before is not null)
select run, region_type,
  coalesce(sum(size_bytes) filter (address = before_end), 0) / nullif(sum(size_bytes), 0) as sequential_share,
  count(*) filter ((address >> 12) = ((before_end - 1) >> 12)) / count(*) as same_page_share,
  avg(stride_bytes) as stride_mean_bytes,
  quantile_disc(stride_bytes, 0.5) as stride_median_bytes
from strides group by all;

create or replace view metric_inter_access_interval as
with intervals as (
  select run, region_type, bytes, timestamp_ns - lag(timestamp_ns) over (partition by run, address order by timestamp_ns, sample_id) as interval_ns
  from pieces
), ranked as (
  select *, sum(bytes) over (partition by run, region_type order by interval_ns) / sum(bytes) over (partition by run, region_type) as share
  from intervals where interval_ns is not null
)
select run, region_type, min(interval_ns) filter (share >= 0.5) as interval_p50_ns,
  min(interval_ns) filter (share >= 0.9) as interval_p90_ns, min(interval_ns) filter (share >= 0.99) as interval_p99_ns,
  sum(interval_ns::double * bytes) / sum(bytes) as interval_mean_ns
from ranked group by all;

-- A quantile that the curve does not come down to is null.
create or replace view metric_retention as
with shares as (
  select run, region_type, sum(bytes)::bigint as life_bytes,
    coalesce(sum(bytes) filter (end_ns is null), 0) / sum(bytes) as censored_share,
    coalesce(sum(bytes) filter (loads = 0), 0) / sum(bytes) as never_read_share,
    coalesce(sum(bytes) filter (is_inferred), 0) / sum(bytes) as inferred_share
  from data_lives group by all
), quantiles as (
  select run, region_type,
    min(span_ns) filter (kind = 'retention' and surviving_share <= 0.5) / 1e9 as retention_p50_s,
    min(span_ns) filter (kind = 'retention' and surviving_share <= 0.1) / 1e9 as retention_p90_s,
    min(span_ns) filter (kind = 'retention' and surviving_share <= 0.01) / 1e9 as retention_p99_s,
    max(span_ns) filter (kind = 'retention') / 1e9 as retention_max_s,
    min(span_ns) filter (kind = 'residency' and surviving_share <= 0.5) / 1e9 as residency_p50_s,
    min(span_ns) filter (kind = 'residency' and surviving_share <= 0.01) / 1e9 as residency_p99_s
  from survival group by all
)
select * from shares left join quantiles using (run, region_type);
