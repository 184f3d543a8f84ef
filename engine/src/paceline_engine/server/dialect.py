"""How our metric families read in other tongues.

`VLLM` maps ours to vLLM's names (as scraped). `GATEWAY_API_INFERENCE` maps the three gauges
the Gateway API Inference Extension requires of a model server, and its optional cache
labels, to ours. Standard library only.
"""

from __future__ import annotations

from paceline_engine.server import metric_names as names

VLLM: dict[str, str] = {
    names.REQUESTS_RUNNING.full_name: "vllm:num_requests_running",
    names.REQUESTS_WAITING.full_name: "vllm:num_requests_waiting",
    names.KV_USAGE.full_name: "vllm:kv_cache_usage_perc",
    names.REQUESTS.full_name: "vllm:request_success_total",
    names.REJECTED.full_name: "vllm:admission_rejections_total",
    names.TTFT.full_name: "vllm:time_to_first_token_seconds",
    names.ITL.full_name: "vllm:inter_token_latency_seconds",
    names.TPOT.full_name: "vllm:request_time_per_output_token_seconds",
    names.QUEUE.full_name: "vllm:request_queue_time_seconds",
    names.DURATION.full_name: "vllm:e2e_request_latency_seconds",
    names.PROMPT_TOKENS_HIST.full_name: "vllm:request_prompt_tokens",
    names.GENERATION_TOKENS_HIST.full_name: "vllm:request_generation_tokens",
    names.PROMPT_TOKENS.full_name: "vllm:prompt_tokens_total",
    names.GENERATION_TOKENS.full_name: "vllm:generation_tokens_total",
    names.PREFIX_QUERIES.full_name: "vllm:prefix_cache_queries_total",
    names.PREFIX_HITS.full_name: "vllm:prefix_cache_hits_total",
    names.PREEMPTIONS.full_name: "vllm:num_preemptions_total",
    names.CACHE_CONFIG.full_name: "vllm:cache_config_info",
}
"""Ours -> vLLM's. `vllm:request_success_total` calls the outcome label `finished_reason`."""

GATEWAY_API_INFERENCE: dict[str, str] = {
    "TotalQueuedRequests": names.REQUESTS_WAITING.full_name,
    "TotalRunningRequests": names.REQUESTS_RUNNING.full_name,
    "KVCacheUtilization": names.KV_USAGE.full_name,
    "BlockSize": names.CACHE_CONFIG.full_name,
    "NumGPUBlocks": names.CACHE_CONFIG.full_name,
}
