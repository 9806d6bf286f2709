"""The tokens of a recognizable form, as a table: a new kind is a row here, and one in tests/data/secrets.txt.

A kind of one part belongs into _AT_LEAST, _TOKENS or _KEYS. A kind whose parts are joined by a sign that is no letter,
digit, hyphen or underscore belongs into PARTED, and its beginning into PARTS. A service whose tokens have no
recognizable form belongs into SERVICES.
"""

from __future__ import annotations

import re

RUN = 16  # consecutive letters and digits of a token without a name, at least


# The prefixes of the tokens that go on with at least so many letters, digits, hyphens and underscores.
_AT_LEAST = {
    10: (
        "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ sm_pat_ sm_aat_ sm_sat_ xoxa- xoxb- xoxc- xoxd- "
        "xoxe- xoxo- xoxp- xoxr- xoxs- xapp- dckr_pat_ dckr_oat_ tskey- sb_secret_ GOCSPX-"
    ),
    12: "FLWSECK_TEST- FLWSECK-",
    14: "rzp_live_ rzp_test_",
    19: "NRAK- NRII- NRJS-",
    20: (
        "sk-ant- sk-proj- sk-svcacct- sk-admin- sk-or- sk-lf- pk-lf- GR1348941 lsv2_ tvly- whsec_ sq0atp- sq0csp- "
        "EAAA bedrock-api-key- aio_"
    ),
    28: "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ hf_ api_org_ npm_ nfp_ r8_ figd_ wandb_v1_",
    30: (
        "tgp_v1_ jina_ aph0_ ast0_ llx- apify_api_ pnb_ dbtc_ dbts_ napi_ xau_ cfut_ cfat_ cfk_ vcp_ vci_ vca_ "
        "vcr_ vck_ nfo_ nfc_ nfu_ nfb_ bkct_ bkaj_ CCIPRJ_ sntryi_ pylf_v1_ figu_ figoh_ sk_org_live_ "
        "sk_org_test_ ek_live_ ek_test_ esecret_ shpat_ shpca_ shppa_ shpss_ duffel_live_ duffel_test_ pat-na1- "
        "pat-eu1- pnu_ ico- p8e- pul- s-s4t2ud- s-s4t2af- xkeysib- xsmtpsib- lin_api_ lin_oauth_ glsa_ phx_ phs_ "
        "CFPAT- tfp_ ntn_ ATBB access-production- access-development- access-sandbox- AIza"
    ),
    32: (
        "nvapi- gsk_ xai- pplx- csk- pcsk_ sgp_ PMAK- tk-us- HRKU- fo1_ sbp_ hcaik_ hcbik_ CCIPAT_ bkua_ squ_ sqp_ sqa_"
    ),
    35: "AQVN",
    40: "rubygems_ CLOJARS_ dop_v1_ doo_v1_ dor_v1_ sntryu_ rdme_ shippo_live_ shippo_test_ dnkey- fio-u- CfDJ8",
    43: "flarelog_",
    50: "pypi- AGE-SECRET-KEY-1 age-secret-key-1 AGE-SECRET-KEY-PQ-1 age-secret-key-pq-1",
}
# The prefixes of other tokens, and the pattern after them.
_TOKENS = (
    (
        "glpat- glrt- glptt- gldt- glcbt- glft- glimt- glagent- gloas- glsoat- glffct- glwt- glrtr-",
        rb"[\w-]{16,}+(?:\.[a-z0-9]{2,}+){0,2}",
    ),
    ("sk-", rb"(?=[\w-]{0,200}?\d)[\w-]{20,}+"),
    ("sess-", rb"(?=[A-Za-z]{0,39}\d)[A-Za-z0-9]{40}(?![\w-])"),
    ("KGAT_ fc- local- cs_ ck_ sk_ e2b_ dose", rb"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{48})(?![\w-])"),
    ("pa-", rb"(?=[\w-]{0,42}?\d)(?=[\w-]{0,42}?[A-Z])[\w-]{43}(?![\w-])"),
    ("rpa_", rb"[A-Z0-9]{40,}+"),
    ("ak- as-", rb"(?=[A-Za-z]{0,21}\d)[A-Za-z0-9]{22}(?![\w-])"),
    ("rnd_ cio", rb"(?=[A-Za-z]{0,31}\d)[A-Za-z0-9]{32}(?![\w-])"),
    ("xaat- xapt-", rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![\w-])"),
    ("re_", rb"(?=[A-Za-z0-9_]{0,32}?\d)[A-Za-z0-9]{8}_[A-Za-z0-9]{24}(?![\w-])"),
    ("md-", rb"(?=[\w-]{0,21}?\d)(?=[\w-]{0,21}?[A-Z])[\w-]{22}(?![\w-])"),
    ("pk_", rb"\d{6,10}_[A-Z0-9]{32}(?![\w-])"),
    ("hf_oauth_ hf_jwt_", rb"[\w-]{20,}+(?:\.[\w-]++){0,4}"),
    ("fw_", rb"(?=[A-Za-z0-9]{0,23}\d)[A-Za-z0-9]{20,}+(?![\w-])"),
    ("dapi", rb"[0-9a-f]{32}(?:-\d)?"),
    ("oy2", rb"[a-z0-9]{43}(?![\w-])"),
    ("EZAK EZTK", rb"[A-Za-z0-9]{54}(?![\w-])"),
    ("key- SK", rb"[0-9a-f]{32}(?![\w-])"),
    ("GOOG1", rb"[A-Z0-9]{20,}+(?![\w-])"),
    ("ABSK", rb"[A-Za-z0-9+/]{100,}+={0,2}"),
    ("ops_eyJ glc_ sntrys_ fm2_ fm1r_ fm1a_", rb"[\w+/=-]{24,}+"),
    ("pscale_tkn_ pscale_oauth_ pscale_pw_", rb"[\w.=-]{24,}+"),
    ("AKCp cmVmd", rb"[A-Za-z0-9]{50,}+"),
    ("A3-", rb"[A-Z0-9]{6}-[A-Z0-9-]{20,}+"),
    ("AGE-PLUGIN-", rb"[A-Z0-9_.+-]{1,32}?1[AC-HJ-NP-Z02-9]{6,}+(?![\w-])"),
    ("SEC", rb"[0-9a-f]{64}(?![\w-])"),  # DingTalk
    ("K10", rb"[0-9a-f]{64}::[\w-]{1,32}:[\w.-]{8,}+"),
    ("ATATT3 ATCTT3 ATSTT3", rb"[\w=-]{50,}+"),
    ("secret_", rb"[A-Za-z0-9]{43}(?![\w-])"),
    ("sdk- mob-", rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{20,}+"),
    ("API-", rb"[A-Z0-9]{26}(?![\w-])"),
    ("4b1d", rb"[A-Za-z0-9]{38}(?![\w-])"),
    ("EAA", rb"[A-Za-z0-9]{100,}+"),
    ("pat", rb"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("eyJrIjoi eyJhcGlf eyJhIjoi eyJhIjog", rb"[\w+/=-]{32,}+"),
    ("eyJ", rb"[\w-]{8,}+(?:\.[\w-]*+){1,5}"),  # JWT and its relatives
    ("ZXlK", rb"[\w+/=-]{40,}+"),  # the same in base64
)
# The same of keys: Bitcoin's extended keys and keys for import, Nostr's, Cardano's, Stellar's, those of NATS, AWS, ...
_KEYS = (
    (
        "xprv yprv zprv tprv uprv vprv Yprv Zprv Uprv Vprv Ltpv Mtpv ttpv dgpv drkp",
        rb"[1-9A-HJ-NP-Za-km-z]{90,}+(?![\w-])",
    ),
    ("nsec1 ncryptsec1", rb"[ac-hj-np-z02-9]{50,}+(?![\w-])"),
    ("edsk spsk p2sk edesk spesk p2esk", rb"(?=[A-Za-z]{0,49}\d)[1-9A-HJ-NP-Za-km-z]{50,}+(?![\w-])"),
    ("suiprivkey1 ed25519_sk1 ed25519e_sk1 root_xsk1 acct_xsk1 addr_xsk1 stake_xsk1", rb"[\w-]{50,}+=*+"),
    ("5H 5J 5K", rb"(?=[A-Za-z]{0,48}\d)(?=[^a-z]{0,48}[a-z])[1-9A-HJ-NP-Za-km-z]{49}(?![\w-])"),
    ("Kw Kx Ky Kz L1 L2 L3 L4 L5", rb"(?=[A-Za-z]{0,49}\d)(?=[^a-z]{0,49}[a-z])[1-9A-HJ-NP-Za-km-z]{50}(?![\w-])"),
    ("SA SB SC SD SN SO SU SX", rb"(?=[A-Z]{0,53}[2-7])[A-Z2-7]{54,56}(?![\w-])"),
    # The secret key beside an AWS key id has no recognizable form.
    (
        "AKIA ASIA ABIA ACCA",
        rb"[A-Z0-9]{16}(?![A-Za-z0-9])(?:[ \t:,;|\"']{1,4}(?![0-9a-f]{40})[A-Za-z0-9+/]{40}(?![\w+/=-]))?",
    ),
    ("A3T", rb"[A-Z0-9]{17}(?![A-Za-z0-9])"),
    ("LTAI", rb"[A-Za-z0-9]{12,30}(?![\w-])"),
    ("AKID", rb"[A-Za-z0-9]{32}(?![\w-])"),
    # A private key in base64: PRIVATE is encoded in one of three ways, by its alignment.
    ("LS0tLS1CRUdJTi", rb"(?=[A-Za-z0-9+/]{0,64}?(?:UFJJVkFUR|QUklWQVRF|BSSVZBVE))[A-Za-z0-9+/=]++"),
)
KINDS: tuple[tuple[str, str, bytes], ...] = (
    *(("tokens", prefixes, rb"[\w-]{%d,}+=*+" % least) for least, prefixes in _AT_LEAST.items()),
    *(("tokens", *kind) for kind in _TOKENS),
    *(("keys", *kind) for kind in _KEYS),
)
# Kinds of several parts, one of which is a run of letters and digits; and the signs that join the parts.
PARTED = tuple(
    (signs, re.compile(rb"(?:%b)" % kinds))
    for signs, kinds in (
        (
            b".~",
            rb"SG\.[\w-]{16,}+\.[\w-]{16,}+|hv[sbr]\.[\w-]{20,}+|ya29\.[\w.-]{20,}+"
            rb"|s\.(?=[A-Za-z]{0,23}\d)[A-Za-z0-9]{24}(?![\w.-])"
            rb"|dt0[a-z]\d\d\.[A-Z0-9]{8,}+\.[A-Z0-9]{40,}+"
            rb"|st\.[0-9a-f]{24}\.[0-9a-f]{32}\.[0-9a-f]{32}|snyk_uat\.[0-9a-f]{8}\.[\w-]{40,}+"
            rb"|AQ\.Ab[\w-]{40,}+|secret_\w{1,24}_[0-9a-f]{32}\.[A-Za-z0-9]{32}"
            rb"|0\.[0-9a-f]{8}-[0-9a-f-]{27}\.[A-Za-z0-9]{30}:[A-Za-z0-9+/]{22}=="
            rb"|t1\.[\w-]{20,}+=*\.[\w-]{40,}+=*|[ps]k\.eyJ[\w-]{20,}+(?:\.[\w-]++)?|sl\.[\w=-]{100,}+"
            rb"|dp\.(?:pt|ct|st|scim|audit|sa)\.[\w.-]{32,}+|[ps]at\.[\w-]{22}\.[\w-]{24}\.[\w-]{20}"
            rb"|sha256~[\w-]{43,}+|v1\.0-[0-9a-f]{20,}+-[0-9a-f]{100,}+"
            rb"|[MNO][\w-]{22,28}\.[\w-]{6}\.[\w-]{27,}+|[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}+"
            rb"|xoxe\.xox[bp]-[\w-]{40,}+|[\w~.]{3}\dQ~[\w~.-]{31,34}"
            rb"|[a-z]{2,8}_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][\w-]{10,32}\.[\w+/=-]{30,}+"
            rb"|[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk(?![\w-])"
            rb"|\.?eJ[\w-]{16,}+\.[\w-]{6}\.[\w-]{20,}+",  # a signed session of Flask
        ),
        (
            b"/+",
            rb"(?:ops_eyJ|glc_|sntrys_|fm[12][ra]?_|ABSK)[\w+/=-]{24,}+|1//0?[\w-]{40,}+|pdus\+_[\w-]{40,}+"
            rb"|bce-v3/ALTAK-[A-Za-z0-9]{21}/[0-9a-f]{40}",
        ),
        (b"!", rb"00D[A-Za-z0-9]{12}![\w.]{80,}+"),
        (
            b":",
            rb"(?:eyJ|eJ)[\w-]{4,}+:[\w-]{6}:[\w-]{27,}+|(?:bot)?\d{8,10}:AA[\w-]{32,}+"
            rb"|AAAA[\w-]{7}:APA91b[\w-]{100,}+",
        ),
        (b"$", rb"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[0-9a-f]{32}"),
    )
)
# The text near the beginning of such a kind.
PARTS = re.compile(
    rb"SG\.|hv[sbr]\.|ya29|s\.|dt0|t1\.|[ps]k\.eyJ|sl\.|dp\.|[ps]at|sha256~|v1\.0-|[MNO][\w-]{22}|atlasv1|xoxe|\dQ~|acc[_-]|_mmk"
    rb"|ops_|glc_|sntrys|fm[12]|ABSK|1//|:AA|APA91b|access_token|eyJ|eJ|st\.|snyk_|AQ\.|secret_|0\.[0-9a-f]{8}-|pdus|bce-v3|00D"
)
JOINTS = b".~/:$@+!"  # the signs that join parts
# Signs within a token, the number of letters before them, and the token: in a run of letters and digits, and in base64,
# where such signs begin with +A.
SIGNED, SIGNED_BASE64 = (
    tuple(
        (sign, before, re.compile(rb"%b{%d}%b%b{%d}=*" % (of, before, re.escape(sign), of, behind)))
        for sign, before, behind in signs
    )
    for of, signs in (
        (rb"[\w-]", ((b"JQQJ99", 52, 26), (b"AZDO", 76, 4), (b"AzFu", 44, 8), (b"AzSe", 42, 6))),
        (rb"[A-Za-z0-9+/]", ((b"+ASt", 76, 6), (b"+AEh", 33, 7), (b"+ACR", 42, 6))),
    )
)
LEAST_SIGNED = 52  # length of a run with such a sign, at least
HOOK = re.compile(
    rb"(?:hooks\.slack\.com/(?:services|workflows|triggers)|webhook\.office\.com/webhookb2"
    rb"|discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{1,24})/"
)
DIGESTS = re.compile(rb"[0-9a-f]{32}-us\d{1,2}(?![\w-])|[0-9a-f]{36}NRAL(?![\w-])")
WANDB = re.compile(rb"wandb|w&b|weights (?:&|and) biases")
COMMIT = re.compile(rb"commit|sha|\brev|\bgit\b|hash|digest")
LOGIN = re.compile(rb"wandb[ \t]{1,8}login[ \t]{1,8}(?:--\w{1,20}[ \t=]{1,8}){0,4}\Z")
# Services whose tokens have no recognizable form: the name before a random value tells.
SERVICES = re.compile(
    rb"(?<![a-z])(?:adafruit|adobe|airtable|algolia|alibaba|aliyun|asana|atlassian|auth0|azure_?devops|beamer|bitbucket|bittrex|bundle_\w+__"
    rb"|cloudflare|codecov|cohere|coinbase|confluen|contentful|datadog|\bdd_|digitalocean|discord|dropbox|droneci|drone_ci"
    rb"|dynatrace|easypost|etsy|facebook|fastly|finicity|finnhub|flickr|flutterwave|freshbooks|gitter|gocardless|grafana|heroku"
    rb"|hetzner|honeycomb|hubspot|intercom|jfrog|artifactory|jira|kraken|kucoin|launchdarkly|linkedin|linked_in|linode|\blob_"
    rb"|looker|mailchimp|mailgun|mapbox|mattermost|maxmind|meraki|message_?bird|mongodb_?atlas|netlify|new[_-]?relic|ngrok"
    rb"|notion|nytimes|okta|openai|opsgenie|pagerduty|plaid|planetscale|postman|private[_-]?ai|pulumi|rapidapi|rollbar|rubygems"
    rb"|sendbird|sendgrid|sendinblue|sentry|shippo|shopify|snyk|sonar|squarespace|stripe|sumo|telegr|travis|trello|twilio|twitch"
    rb"|twitter|typeform|vercel|yandex|zendesk"
    rb"|(?:git|github|gitlab|gh|gl|azure|azdo|ado|devops|databricks|snowflake|docker|hub|repo|ci|personal|access|deploy)_?pat\Z"
    rb"|(?:php|j|asp\.net_)?sess(?:ion)?[ _-]?id\Z|sig(?:nature)?\Z|cred(?:ential)?s?\Z)"
)
