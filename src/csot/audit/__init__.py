"""Audits: which rows to verify, and what the verified rows say about all others. Without torch."""

from csot.audit.design import AuditPlan as AuditPlan
from csot.audit.design import Population as Population
from csot.audit.design import Stratum as Stratum
from csot.audit.interval import Estimate as Estimate
from csot.audit.proposal import Audit as Audit
from csot.audit.proposal import AuditResult as AuditResult
from csot.audit.proposal import propose_audit as propose_audit
