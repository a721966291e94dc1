-- The metrics by mrm-trace's definitions, by region: docs/metrics.
create or replace view mrm_trace_regions as
with strides as (
  select run, region_id, abs(address::hugeint - lag(address::hugeint) over rows_of_region) as stride_bytes,
    (address >> 12) = (lag(address) over rows_of_region >> 12) as is_same_page
  from trace window rows_of_region as (partition by run, region_id order by timestamp_ns, sample_id)
), locality as (
  select run, region_id, coalesce(avg(stride_bytes), 0) as stride_mean_bytes, coalesce(median(stride_bytes), 0) as stride_median_bytes,
    coalesce(avg(is_same_page::int), 0) as same_page_share
  from strides group by all
), stored as (
  select run, region_id, address, count(*) as stores from trace where op_type = 'store' group by all
), write_once as (
  select run, region_id, count(*) filter (stores = 1) / count(*) as write_once_ratio from stored group by all
), regions as (
  select run, region_id, arg_min(region_type, sample_id) as region_type,
    coalesce(min(timestamp_ns) filter (op_type = 'store'), min(timestamp_ns))::hugeint as first_write_ns,
    max(timestamp_ns) filter (op_type = 'load') as last_read_ns,
    count(*) filter (op_type = 'load') as loads, count(*) filter (op_type = 'store') as stores, count(*) as rows,
    count(distinct address >> 12) as unique_pages
  from trace group by run, region_id
)
select run, region_type, region_id, greatest(0, coalesce(last_read_ns, first_write_ns) - first_write_ns) / 1e9 as retention_s,
  write_once_ratio, loads, stores, coalesce(loads / nullif(stores, 0), 0) as reads_per_write, loads / rows as read_fraction,
  unique_pages, stride_mean_bytes, stride_median_bytes, same_page_share
from regions left join write_once using (run, region_id) left join locality using (run, region_id);

-- The same by region type: unweighted over regions.
create or replace view mrm_trace_metrics as
with intervals as (
  select run, region_type, timestamp_ns::hugeint - lag(timestamp_ns::hugeint) over (
    partition by run, region_type, address order by timestamp_ns, sample_id) as interval_ns
  from trace
), rested as (
  select run, region_type, floor(quantile_cont(interval_ns, 0.5)) as interval_p50_ns,
    floor(quantile_cont(interval_ns, 0.9)) as interval_p90_ns, floor(quantile_cont(interval_ns, 0.99)) as interval_p99_ns,
    avg(interval_ns) as interval_mean_ns
  from intervals where interval_ns > 0 group by all
), summed as (
  select run, region_type, count(*) as n_regions, quantile_cont(retention_s, 0.5) as retention_p50_s,
    quantile_cont(retention_s, 0.9) as retention_p90_s, quantile_cont(retention_s, 0.99) as retention_p99_s,
    avg(retention_s) as retention_mean_s, avg(write_once_ratio) as write_once_ratio_mean,
    avg(reads_per_write) as reads_per_write_mean, sum(unique_pages) / 256 as working_set_mb_total,
    sum(unique_pages)::bigint as unique_pages_total, avg(stride_mean_bytes) as stride_mean_bytes,
    avg(stride_median_bytes) as stride_median_bytes, avg(same_page_share) as same_page_share
  from mrm_trace_regions group by all
)
select * from summed left join rested using (run, region_type);
