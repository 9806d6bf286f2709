"""Time stamps of lines, as nanoseconds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flarelog.lines.times import may_tell, rfc3339, shown, stamp
from tests.rows import together

NOW = stamp("2026-11-20T09:00:00Z")
DAY = "2026-11-20T08:12:03"


@together(
    ("line", "time"),
    [
        pytest.param("2026-11-20 08:12:03,123 - ClientRunner - INFO - round 1", f"{DAY}.123000000Z", id="nvflare"),
        pytest.param("2026-11-20T13:42:03.123456789+05:30 x", f"{DAY}.123456789Z", id="rfc-3339"),
        pytest.param("2026-11-20 08:12:03.1234567890 +0000 x", f"{DAY}.123456789Z", id="more-digits-than-nine"),
        pytest.param("<34>1 2003-10-11T22:14:15.003Z host app", "2003-10-11T22:14:15.003000000Z", id="syslog-5424"),
        pytest.param("<34>Nov 20 08:12:03 host su: x", f"{DAY}.000000000Z", id="syslog-3164"),
        pytest.param("Nov 27 23:59:59 host x", "2026-11-27T23:59:59.000000000Z", id="no-year-the-nearest"),
        pytest.param("Nov 28 00:00:01 host x", "2025-11-28T00:00:01.000000000Z", id="no-year-and-no-week-ahead"),
        pytest.param("Dec 31 23:59:59 host x", "2025-12-31T23:59:59.000000000Z", id="no-year-the-one-before"),
        pytest.param("Feb 29 08:12:03 host x", "2024-02-29T08:12:03.000000000Z", id="no-year-the-last-leap-year"),
        pytest.param("Feb 30 08:12:03 host x", None, id="no-year-has-that-day"),
        pytest.param("[rank0]:[W1120 08:12:03.500000 9 a.py:1] x", f"{DAY}.500000000Z", id="pytorch"),
        pytest.param("I1120 08:12:03.5 9 a.go:1] x", f"{DAY}.500000000Z", id="glog"),
        pytest.param(
            "[rank1]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] x",
            "2026-06-26T06:24:44.903881913Z",
            id="pytorch-in-june",
        ),
        pytest.param("[E111 06:24:44.9 a.cpp:6] x", "2026-01-11T06:24:44.900000000Z", id="pytorch-in-january"),
        pytest.param("May 24 08:12:03 host x", "2026-05-24T08:12:03.000000000Z", id="no-year-and-long-ago"),
        pytest.param("2026/11/20 08:12:03 main.go:7: x", f"{DAY}.000000000Z", id="go"),
        pytest.param("2026-11-20 08:12:03.123456: I tensorflow/core x", f"{DAY}.123456000Z", id="tensorflow"),
        pytest.param("::1 - - [20/Nov/2026:00:12:03 -0800] GET", f"{DAY}.000000000Z", id="apache"),
        pytest.param("1:M 20 Nov 08:12:03.276 # shutdown", f"{DAY}.276000000Z", id="redis"),
        pytest.param("\x1b[2;36m[11/20/26 08:12:03]\x1b[0m INFO x", f"{DAY}.000000000Z", id="rich"),
        pytest.param("[11/20 08:12:03 d2.engine]: x", f"{DAY}.000000000Z", id="detectron2"),
        pytest.param("11/20 08:12:03 - mmengine - INFO - x", f"{DAY}.000000000Z", id="mmengine"),
        pytest.param("[11/20/2026-08:12:03] [TRT] [I] x", f"{DAY}.000000000Z", id="tensorrt"),
        pytest.param("[GIN] 2026/11/20 - 08:12:03 | 200 |  1.2ms", f"{DAY}.000000000Z", id="gin"),
        pytest.param("Fri Nov 20 08:12:03 2026 x", f"{DAY}.000000000Z", id="ctime"),
        pytest.param('{"level":"info","time":"2026-11-20T08:12:03Z"}', f"{DAY}.000000000Z", id="json"),
        pytest.param('{"ts": 1795162323.25, "msg": "x"}', f"{DAY}.250000000Z", id="json-seconds"),
        pytest.param("1795162323.25 x", None, id="seconds-alone"),
        pytest.param("[default0]:2026-11-20 08:12:03,188 INFO x", f"{DAY}.188000000Z", id="torchrun"),
        pytest.param("site-3/5 │ 2026-11-20 08:12:03 x", f"{DAY}.000000000Z", id="behind-a-prefix"),
        pytest.param("INFO 2026-11-20 08:12:03 x", f"{DAY}.000000000Z", id="behind-a-level"),
        pytest.param("2026-11-20 08:12:03 AM x", f"{DAY}.000000000Z", id="before-noon"),
        pytest.param("2026-11-20 08:12:03.5 PM x", "2026-11-20T20:12:03.500000000Z", id="behind-noon"),
        pytest.param("2026-11-20 12:12:03 AM x", "2026-11-20T00:12:03.000000000Z", id="twelve-at-night"),
        pytest.param("2026-11-20 12:12:03 pm x", "2026-11-20T12:12:03.000000000Z", id="twelve-at-noon"),
        pytest.param("2026-11-20 20:12:03 AM x", "2026-11-20T20:12:03.000000000Z", id="no-clock-of-twelve-hours"),
        pytest.param("2026-11-20 08:12:03 AMD x", f"{DAY}.000000000Z", id="no-half-of-a-day"),
        pytest.param("[11/20/26 08:12:03 PM] x", "2026-11-20T20:12:03.000000000Z", id="america-in-the-evening"),
        pytest.param("11/20/2026 8:12:03 AM x", f"{DAY}.000000000Z", id="america-with-one-digit"),
        pytest.param("[11/20/26 8:12:03.5 pm] x", "2026-11-20T20:12:03.500000000Z", id="america-with-one-digit-pm"),
        pytest.param("11/20/2026 8:12:03 x", None, id="one-digit-and-no-half-of-the-day"),
        pytest.param("11/20/2026, 08:12:03 PM PST x", "2026-11-21T04:12:03.000000000Z", id="america-all"),
        pytest.param("11/20/2026 08:12:03 x", f"{DAY}.000000000Z", id="america-whole-year"),
        pytest.param("[ERROR] 2026-11-20-08:12:03 (PID:1) x", f"{DAY}.000000000Z", id="ascend"),
        pytest.param("EI0002: 2026-11-20-08:12:03.713.335 x", f"{DAY}.713000000Z", id="ascend-with-parts"),
        pytest.param("[20.11.2026 08:12:03] x", f"{DAY}.000000000Z", id="germany"),
        pytest.param("20.11.2026, 08:12:03.500 x", f"{DAY}.500000000Z", id="germany-comma"),
        pytest.param("[2026-11-20, 08:12:03 UTC] {taskinstance.py:1138} INFO - x", f"{DAY}.000000000Z", id="airflow"),
        pytest.param("2026-11-20 00:12:03 PST x", f"{DAY}.000000000Z", id="pst"),
        pytest.param("2026-11-20 03:12:03,5 EST: x", f"{DAY}.500000000Z", id="est"),
        pytest.param("2026-11-20 09:12:03 CET x", f"{DAY}.000000000Z", id="cet"),
        pytest.param("2026-11-20 10:12:03 CEST x", f"{DAY}.000000000Z", id="cest"),
        pytest.param("2026-11-20 17:12:03 JST x", f"{DAY}.000000000Z", id="jst"),
        pytest.param("2026-11-20 10:12:03 GMT+0200 x", f"{DAY}.000000000Z", id="gmt-and-hours"),
        pytest.param("2026-11-20 08:12:03 INFO x", f"{DAY}.000000000Z", id="a-level-is-no-zone"),
        pytest.param("2026-11-20 08:12:03 ERROR x", f"{DAY}.000000000Z", id="nor-is-error"),
        pytest.param("2026-11-20 08:12:03 WARN x", f"{DAY}.000000000Z", id="nor-is-warn"),
        pytest.param("2026-11-20 08:12:03 ESTIMATE x", f"{DAY}.000000000Z", id="nor-is-a-longer-word"),
        pytest.param("Fri Nov 20 03:12:03 EST 2026 x", f"{DAY}.000000000Z", id="date"),
        pytest.param("Fri Nov 20 08:12:03 PM UTC 2026 x", "2026-11-20T20:12:03.000000000Z", id="date-of-america"),
        pytest.param("Fri 20 Nov 2026 12:12:03 AM PST x", f"{DAY}.000000000Z", id="date-of-debian"),
        pytest.param("Nov 20 08:12:03 EST app: x", f"{DAY}.000000000Z", id="a-host-is-no-zone"),
        pytest.param("20261120 08:12:03 x", f"{DAY}.000000000Z", id="no-hyphens"),
        pytest.param("2026-11-20 8:12:03 x", f"{DAY}.000000000Z", id="one-digit-of-the-hour"),
        pytest.param("[2026/11/20 8:12:03,5] x", f"{DAY}.500000000Z", id="one-digit-and-slashes"),
        pytest.param("2026-11-20 8:12:03 PM x", "2026-11-20T20:12:03.000000000Z", id="one-digit-of-the-evening"),
        pytest.param("2026.11.20 08:12:03.250 x", f"{DAY}.250000000Z", id="dots"),
        pytest.param("INFO 2026.11.20 8:12:03 CET x", "2026-11-20T07:12:03.000000000Z", id="dots-and-one-digit"),
        pytest.param("2026.11-20 08:12:03 x", None, id="dots-and-hyphens"),
        pytest.param("v2026.11.20 08:12:03 x", None, id="a-version"),
        pytest.param("2026-11-20 8:12 x", None, id="one-digit-and-no-seconds"),
        pytest.param("Nov 20, 2026 8:12:03 PM a.B c", "2026-11-20T20:12:03.000000000Z", id="java"),
        pytest.param("Nov 20, 2026, 08:12:03 x", f"{DAY}.000000000Z", id="java-with-commas"),
        pytest.param("Nov 2, 2026 12:12:03 AM a.B c", "2026-11-02T00:12:03.000000000Z", id="java-on-the-second"),
        pytest.param('{"level":"info","ts":1.79516232325e+09,"msg":"x"}', f"{DAY}.250000000Z", id="zap"),
        pytest.param('{"ts":1.795162323e+09}', f"{DAY}.000000000Z", id="zap-to-the-second"),
        pytest.param('{"ts":1.7951623232500000001e+09}', None, id="more-digits-than-a-float-has"),
        pytest.param('{"ts":1.79e+10}', None, id="another-exponent"),
        pytest.param('{"ts":1.79516232325e9}', f"{DAY}.250000000Z", id="json-seconds-of-another-printer"),
        pytest.param('{"time":1795162323250.125,"m":"x"}', f"{DAY}.250125000Z", id="json-milliseconds-and-parts"),
        pytest.param('{"time":1.79516232325e+12,"m":"x"}', f"{DAY}.250000000Z", id="json-milliseconds-exponent"),
        pytest.param('{"time":1795162323250001.5}', f"{DAY}.250001500Z", id="json-microseconds-and-parts"),
        pytest.param('{"time":1.795162323250001E15}', f"{DAY}.250001000Z", id="json-microseconds-exponent"),
        pytest.param('{"time":1795162323250001024.0}', f"{DAY}.250001024Z", id="json-nanoseconds-and-parts"),
        pytest.param('{"time":1.795162323250001e+18}', f"{DAY}.250001000Z", id="json-nanoseconds-exponent"),
        pytest.param('{"time":1795162323250.}', None, id="json-a-dot-and-nothing"),
        pytest.param('{"flops":1.79516232325e+09}', None, id="another-figure"),
        pytest.param("20261120T081203Z x", f"{DAY}.000000000Z", id="iso-basic"),
        pytest.param("20261120T081203.25Z x", f"{DAY}.250000000Z", id="iso-basic-fraction"),
        pytest.param("2026-11-20T08:12Z x", "2026-11-20T08:12:00.000000000Z", id="no-seconds"),
        pytest.param("1795162323250 x", None, id="milliseconds-alone"),
        pytest.param('{"ts": 1795162323250, "msg": "x"}', f"{DAY}.250000000Z", id="json-milliseconds"),
        pytest.param("I20261120 08:12:03.000007 12345 foo.cc:42] x", f"{DAY}.000007000Z", id="glog-with-its-year"),
        pytest.param("[rank1]: E20261120 08:12:03 1 x.cc:4] x", f"{DAY}.000000000Z", id="glog-behind-a-prefix"),
        pytest.param("26/11/20 08:12:03 INFO SparkContext: x", f"{DAY}.000000000Z", id="spark"),
        pytest.param("11/12/20 08:12:03 INFO SparkContext: x", "2011-12-20T08:12:03.000000000Z", id="spark-of-2011"),
        pytest.param("26/11/20 08:12:03 x", None, id="a-year-or-a-day"),
        pytest.param("11/12/26 08:12:03 x", "2026-11-12T08:12:03.000000000Z", id="america-without-a-level"),
        pytest.param('{"timeUnixNano":"1795162323250000001","body":{}}', f"{DAY}.250000001Z", id="otlp"),
        pytest.param('{"Timestamp":1795162323250000001}', f"{DAY}.250000001Z", id="opentelemetry"),
        pytest.param('{"Timestamp": "1795162323250000001"}', f"{DAY}.250000001Z", id="opentelemetry-text"),
        pytest.param('{"__REALTIME_TIMESTAMP":"1795162323250001","MESSAGE":"x"}', f"{DAY}.250001000Z", id="journald"),
        pytest.param(
            f'{{ "__CURSOR" : "{"x" * 200}", "__REALTIME_TIMESTAMP" : "1795162323250001", "MESSAGE" : "x" }}',
            f"{DAY}.250001000Z",
            id="journald-behind-its-cursor",
        ),
        pytest.param('{"MESSAGE":"' + "é" * 700 + '","ts":1795162323}', f"{DAY}.000000000Z", id="json-behind-others"),
        pytest.param('{"MESSAGE":"' + "x" * 1100 + '","ts":1795162323}', None, id="json-too-far-behind"),
        pytest.param('{"date":1795162323.250001,"log":"x"}', f"{DAY}.250001000Z", id="fluent-bit"),
        pytest.param('{"ts":17951623232501}', None, id="json-no-milliseconds"),
        pytest.param('{"ts":"1795162323}', None, id="json-torn"),
        pytest.param('{"text": "2026-11-20 08:12:03.250 | INFO | x"}', f"{DAY}.250000000Z", id="loguru"),
        pytest.param(
            "11/20 08:12:03 - mmengine - INFO - load ckpt of 2025-01-01 00:00:00",
            f"{DAY}.000000000Z",
            id="mmengine-and-a-date",
        ),
        pytest.param("I1120 08:12:03.5 9 a.cc:1] from 2025-01-01 00:00:00", f"{DAY}.500000000Z", id="glog-and-a-date"),
        pytest.param("Nov 20 08:12:03 host x[1]: 2025-01-01 00:00:00 y", f"{DAY}.000000000Z", id="syslog-and-a-date"),
        pytest.param(
            '{"ts":1795162323.25,"msg":"loading 2025-01-01 00:00:00"}', f"{DAY}.250000000Z", id="json-and-a-date"
        ),
        pytest.param(
            '{"msg":"2025-01-01 00:00:00","time":"2026-11-20T10:12:03+02:00"}',
            f"{DAY}.000000000Z",
            id="json-behind-a-date",
        ),
        pytest.param(
            '{"time":1795162323,"expires":"2030-01-01T00:00:00Z"}', f"{DAY}.000000000Z", id="json-and-an-expiry"
        ),
        pytest.param(
            '::1 - - [20/Nov/2026:08:12:03 +0000] "GET /?since=2025-01-01T00:00:00"',
            f"{DAY}.000000000Z",
            id="apache-and-a-date",
        ),
        pytest.param(
            "[Fri Nov 20 08:12:03.5 2026] [error] Nov 21 09:00:01 x", f"{DAY}.500000000Z", id="apache-s-errors"
        ),
        pytest.param("11/20 08:12:03 x", None, id="steps-and-a-duration"),
        pytest.param("epoch: 10/12 00:10:12 x", None, id="epochs-and-a-duration"),
        pytest.param("[11/20 08:12:03] x", f"{DAY}.000000000Z", id="month-and-day-in-brackets"),
        pytest.param("web-0 data 2026-11-20T08:12:03Z x", f"{DAY}.000000000Z", id="a-container-called-data"),
        pytest.param("Not After: 2030-01-01 00:00:00", None, id="a-certificate"),
        pytest.param("license expires on 2030-01-01 00:00:00", None, id="a-license"),
        pytest.param("until=2030-01-01T00:00:00", None, id="a-key"),
        pytest.param("expires: 2030-01-01T00:00:00Z", None, id="a-word-at-the-beginning"),
        pytest.param("until: Jan 01 2030 00:00:00 x", None, id="a-word-before-another-form"),
        pytest.param("from: 11/20/2030 08:12:03 PM", None, id="a-word-before-america"),
        pytest.param("< expires: Fri, 20 Nov 2026 08:12:03 GMT", None, id="a-header-that-curl-shows"),
        pytest.param("< last-modified: Fri, 20 Nov 2026 08:12:03 GMT", None, id="another-header"),
        pytest.param("< date: Fri, 20 Nov 2026 08:12:03 GMT", f"{DAY}.000000000Z", id="the-header-of-the-time"),
        pytest.param("< set-cookie: a=b; expires=Fri, 20-Nov-2026 08:12:03 GMT", None, id="a-cookie"),
        pytest.param("notafter=2030-01-01T00:00:00", None, id="a-key-of-two-words"),
        pytest.param("expires_at=2030-01-01T00:00:00", None, id="a-key-with-a-suffix"),
        pytest.param("token.expiresAt=2030-01-01T00:00:00", None, id="a-key-in-camel-case"),
        pytest.param('{"valid_until":"2030-01-01T00:00:00Z"}', None, id="a-key-of-json-with-a-prefix"),
        pytest.param('{"validUntil":"2030-01-01T00:00:00Z"}', None, id="a-key-of-json-in-camel-case"),
        pytest.param('{"expiration-date": "2030-01-01T00:00:00Z"}', None, id="a-key-of-json-with-a-hyphen"),
        pytest.param("proof: 2026-11-20 08:12:03 x", f"{DAY}.000000000Z", id="a-word-that-ends-as-another"),
        pytest.param('{"until":"2030-01-01T00:00:00Z"}', None, id="a-key-of-json"),
        pytest.param("INFO 11-20 08:12:03 [core.py:12] x", f"{DAY}.000000000Z", id="vllm"),
        pytest.param(
            "(EngineCore pid=6890) INFO 11-20 08:12:03 [core.py:12] x", f"{DAY}.000000000Z", id="vllm-s-process"
        ),
        pytest.param("(pid=1) I1120 08:12:03.5 1 a.cc:1] x", f"{DAY}.500000000Z", id="glog-behind-a-process"),
        *(
            pytest.param(f"{prefix} {said}", f"{DAY}.000000000Z", id=f"{form}-behind-{name}")
            for name, prefix in {
                "ray": "(RayTrainWorker pid=811, ip=10.0.0.4)",
                "ray-s-method": "(_RayTrainWorker__execute.get_next pid=8111, ip=10.10.10.104)",
                "raylet": "(raylet, ip=10.0.0.4)",
                "two-processes": "(EngineCore_0 pid=1) (RayWorkerWrapper pid=2, ip=10.0.0.4)",
            }.items()
            for form, said in {
                "glog": "W1120 08:12:03.000000 140 x.py:1] x",
                "pytorch": "[rank3]:[W1120 08:12:03.000000000 x.cpp:1] x",
                "syslog": "Nov 20 08:12:03 host x",
                "rich": "[11/20/26 08:12:03] INFO x",
                "detectron2": "[11/20 08:12:03 d2.engine]: x",
                "mmengine": "11/20 08:12:03 - mmengine - INFO - x",
                "vllm": "INFO 11-20 08:12:03 [core.py:12] x",
                "iso": "2026-11-20 08:12:03 x",
            }.items()
        ),
        pytest.param("(pid=811) 11/20 08:12:03 - mmengine - INFO - x", f"{DAY}.000000000Z", id="mmengine-of-a-process"),
        pytest.param("[rank0]: 11/20 08:12:03 - mmengine - INFO - x", f"{DAY}.000000000Z", id="mmengine-of-a-rank"),
        pytest.param("web-0 | [11/20 08:12:03 d2.engine]: x", f"{DAY}.000000000Z", id="detectron2-behind-a-name"),
        pytest.param("web-0 | INFO 11-20 08:12:03 [core.py:12] x", f"{DAY}.000000000Z", id="vllm-behind-a-name"),
        pytest.param("(epoch 3) 11/20 08:12:03 - x", None, id="steps-and-a-duration-of-an-epoch"),
        pytest.param("E0000 00:00:1795162323.250000 1234 cuda_dnn.cc:8579] x", f"{DAY}.250000000Z", id="xla"),
        pytest.param("[rank1]: E0000 00:00:1795162323.250000 1 c.cc:8] x", f"{DAY}.250000000Z", id="xla-of-a-rank"),
        pytest.param("[1,0]<stderr>:Nov 20 08:12:03 host x", f"{DAY}.000000000Z", id="syslog-behind-mpirun-s-tag"),
        pytest.param("ts=1795162323.25 level=info", f"{DAY}.250000000Z", id="logfmt-with-seconds"),
        pytest.param(
            '{"job":{"timestamp":"2025-01-01T00:00:00Z"},"msg":"}","time":"2026-11-20T08:12:03Z"}',
            f"{DAY}.000000000Z",
            id="json-whose-nested-object-has-a-time",
        ),
        pytest.param(
            '{"job":{"timestamp":"2026-11-20T08:12:03Z"}}', f"{DAY}.000000000Z", id="json-of-a-nested-time-alone"
        ),
        pytest.param("certificate valid until 2030-01-01 00:00:00", None, id="another-time"),
        pytest.param("ValueError: time data '2019-01-01 00:00:00' does not match", None, id="a-time-in-quotes"),
        pytest.param(
            '{"level":"info","msg":"' + "m" * 40 + '","time":"2026-11-20T10:12:03+02:00"}',
            f"{DAY}.000000000Z",
            id="json-whose-zone-is-the-97th-character",
        ),
        pytest.param(
            '{"level":"info","msg":"' + "m" * 400 + '","time":"2026-11-20T10:12:03+02:00"}',
            f"{DAY}.000000000Z",
            id="json-iso-behind-others",
        ),
        pytest.param(
            "m" * 75 + " 2026-11-20 10:12:03.123456+02:00 y", f"{DAY}.123456000Z", id="a-zone-is-the-97th-character"
        ),
        pytest.param("2026-11-20 10:12:03+02 x", f"{DAY}.000000000Z", id="hours-of-a-zone"),
        pytest.param("2026-11-20 10:12:03 GMT+2 x", f"{DAY}.000000000Z", id="hours-behind-gmt"),
        pytest.param('{"asctime":"2026-11-20 00:12:03 PST"}', f"{DAY}.000000000Z", id="json-pst"),
        pytest.param('{"time":"2026-11-20 09:12:03,250 CET"}', f"{DAY}.250000000Z", id="json-cet"),
        pytest.param('{"time":"2026-11-20 10:12:03 GMT+2"}', f"{DAY}.000000000Z", id="json-hours-behind-gmt"),
        pytest.param('{"time":"2026-11-20 08:12:03 PM"}', "2026-11-20T20:12:03.000000000Z", id="json-in-the-evening"),
        pytest.param('{"time":"2026-11-20 08:12:03 PMO"}', f"{DAY}.000000000Z", id="json-and-no-zone"),
        pytest.param("2026-11-20 08:12:03 +99:99 x", f"{DAY}.000000000Z", id="no-hours-of-a-zone"),
        pytest.param("2026-11-20 08:12:03 +1234 items", f"{DAY}.000000000Z", id="no-minutes-of-a-zone"),
        pytest.param("2026-11-20t08:12:03z x", f"{DAY}.000000000Z", id="lower-case"),
        pytest.param("11/9/2026 11:50:05 AM x", "2026-11-09T11:50:05.000000000Z", id="america-with-a-day-of-one-digit"),
        pytest.param(
            "1/12/2026, 1:50:05 PM x", "2026-01-12T13:50:05.000000000Z", id="america-with-a-month-of-one-digit"
        ),
        pytest.param("5.9.2026 08:00:01 x", "2026-09-05T08:00:01.000000000Z", id="germany-with-one-digit"),
        pytest.param("Fri Nov 20 2026 10:12:03 GMT+0200 (CEST) x", f"{DAY}.000000000Z", id="javascript"),
        pytest.param("17951623232501 x", None, id="no-milliseconds"),
        pytest.param("epoch 3 loss 2.5 at 1795162323", None, id="none"),
        pytest.param("2026-02-30 08:12:03 x", None, id="no-such-day"),
        pytest.param("step 12026-11-20 08:12:03", None, id="within-a-number"),
        pytest.param("x" * 200 + " 2026-11-20 08:12:03", None, id="not-at-the-beginning"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_a_line_s_own_time(line: str, time: str | None) -> None:
    found = stamp(line, now=NOW)
    assert (None if found is None else shown(found)) == time
    assert time is None or may_tell(line.encode())


@pytest.mark.parametrize("line", [b"epoch 3 loss 2.5", b"x" * 600 + b" 08:12:03", b"\xff\xfe", b""])
def test_a_line_that_tells_no_time_is_known_by_its_bytes(line: bytes) -> None:
    assert not may_tell(line)


def test_a_stamp_without_a_zone_is_in_the_one_that_is_told() -> None:
    assert stamp("2026-11-20 13:42:03", zone=19800) == stamp("2026-11-20 13:42:03Z", zone=5) - 19800 * 10**9  # type: ignore[operator]


def test_a_stamp_without_a_year_may_be_of_the_next_one() -> None:
    found = stamp("Jan  1 00:00:01 host x", now=stamp("2026-12-31T23:59:59Z"))
    assert found is not None
    assert shown(found) == "2027-01-01T00:00:01.000000000Z"


def test_a_stamp_without_a_year_is_not_believed_when_no_time_is_told() -> None:
    assert stamp("Nov 20 08:12:03 host x") is None


@pytest.mark.parametrize("text", ["2026-11-20T08:00:00", "2026-13-20T08:00:00Z", "2026-11-20T24:00:00Z", "now", ""])
def test_what_is_no_rfc_3339(text: str) -> None:
    assert rfc3339(text) is None


@settings(deadline=None, database=None, derandomize=True)
@given(st.integers(0, 4102444800 * 10**9))
def test_what_is_shown_is_read_again(time: int) -> None:
    assert rfc3339(shown(time)) == time == stamp(shown(time))


@settings(deadline=None, database=None, derandomize=True, max_examples=300)
@given(st.text(alphabet='0123456789-/:.,TZ +[]{}"tsJanNov٣\x1b|', max_size=120))
def test_any_text_has_a_time_or_none(text: str) -> None:
    found = stamp(text, now=NOW)
    assert found is None or (shown(found) and may_tell(text.encode()))
    rfc3339(text)
