import type { ResumptionStore } from '#kernel/call/stages'
import { KERNEL_MODULES } from '#kernel/store/kernel-modules'
import { defineStore } from '#kernel/store/module'
import { createStore, type KernelStore, type StoreParts } from '#kernel/store/store'
import { type CallLogStore, callLogModule, openCallLogs } from '#store/calls/call-logs'
import { type CallSearchStore, callSearchModule, openCallSearch } from '#store/calls/call-search'
import { openStandingRules, type StandingRuleStore, standingRuleModule } from './approvals/standing-rules.ts'
import { type JournalBlocks, journalBlockModule } from './audit/journal-blocks.ts'
import { type JournalReader, journalReaderModule, openJournalReader } from './audit/journal-reader.ts'
import { openReceiptKeys, type ReceiptKeyStore, receiptKeyModule } from './audit/receipt-keys.ts'
import { openProofs, type ReceiptStore, receiptModule } from './audit/receipts.ts'
import {
  type ChallengeStore,
  type ConsentStore,
  consentModule,
  openChallenges,
  openConsents,
} from './consents.ts'
import { importModule, openPins, openSources, type PinStore, type SourceStore } from './imports.ts'
import { type AuditStore, type KeyStore, keyModule, openAudit, openKeys } from './keys.ts'
import { type BudgetStore, limitModule, openBudgets, openRates, type RateStore } from './limits.ts'
import { type NoticeStore, noticeModule, openNotices } from './notices.ts'
import { type OperatorStore, openOperatorViews, operatorModule } from './operator-views.ts'
import { openPastSearches, type PastSearchStore, pastSearchModule } from './past-searches.ts'
import {
  type IdempotentRequestStore,
  openIdempotentRequests,
  openProtocolSessions,
  type ProtocolSessionStore,
  protocolModule,
} from './protocol-state.ts'
import { openRejections, type RejectionStore, rejectionModule } from './rejections.ts'
import { openResumptions, resumptionModule } from './resumptions.ts'
import { type AlertStore, alertModule, openAlerts } from './rollups/alerts.ts'
import { openRollups, type RollupStore, rollupModule } from './rollups/rollups.ts'
import { type KeyChangeStore, openKeyChange, rotationModule } from './rotation.ts'
import { openTasks, type TaskStore, taskModule } from './tasks.ts'
import { openVault, type VaultStore, vaultModule } from './vault.ts'
import { openVerification, type Verification, verifyModule } from './verify.ts'
import { openWorkflows, type SuspendedStore, workflowModule } from './workflows.ts'

/**
 * Collet's store: the kernel's modules and those of every other subject. A new subject is one entry in each list
 * below: its module, the type of its methods, and the call that opens it.
 */
export const DEFINITION = defineStore([
  ...KERNEL_MODULES,
  rotationModule,
  consentModule,
  vaultModule,
  keyModule,
  importModule,
  limitModule,
  protocolModule,
  noticeModule,
  rollupModule,
  alertModule,
  rejectionModule,
  operatorModule,
  callSearchModule,
  callLogModule,
  workflowModule,
  taskModule,
  pastSearchModule,
  resumptionModule,
  standingRuleModule,
  verifyModule,
  journalReaderModule,
  journalBlockModule,
  receiptKeyModule,
  receiptModule,
])

export interface Store extends KernelStore, OperatorStore, CallSearchStore, ChallengeStore, Verification {
  readonly keys: KeyStore
  /** The change of `COLLET_KEY`. */
  readonly keyChange: KeyChangeStore
  readonly audit: AuditStore
  /** Counts of calls and of rejected requests by interval. */
  readonly rollups: RollupStore
  /** Alerts that have started and not ended. */
  readonly alerts: AlertStore
  readonly rejections: RejectionStore
  /** What tools logged during calls. */
  readonly callLogs: CallLogStore
  /** The journal, newest event first. */
  readonly journal: JournalReader
  /** The blocks of the journal, which receipts are proven with. */
  readonly blocks: JournalBlocks
  readonly receipts: ReceiptStore
  readonly receiptKeys: ReceiptKeyStore
  readonly budgets: BudgetStore
  readonly rates: RateStore
  readonly vault: VaultStore
  readonly consents: ConsentStore
  /** Sessions of protocol clients, their requests in progress, and questions to them. */
  readonly callers: ProtocolSessionStore
  readonly notices: NoticeStore
  readonly pins: PinStore
  readonly sources: SourceStore
  readonly workflows: SuspendedStore
  readonly requests: IdempotentRequestStore
  /** Tasks of MCP clients: calls whose results the clients fetch later. */
  readonly tasks: TaskStore
  /** Searches that were followed by a successful call. */
  readonly pastSearches: PastSearchStore
  /** State that lets running calls continue after a crash. */
  readonly resumptions: ResumptionStore
  readonly standingRules: StandingRuleStore
}

export function createColletStore(parts: StoreParts): Store {
  return createStore(parts, (context) => ({
    ...openOperatorViews(context),
    ...openCallSearch(context),
    ...openChallenges(context),
    ...openVerification(context),
    keys: openKeys(context),
    keyChange: openKeyChange(context),
    audit: openAudit(context),
    rollups: openRollups(context),
    alerts: openAlerts(context),
    rejections: openRejections(context),
    callLogs: openCallLogs(context),
    journal: openJournalReader(context),
    ...openProofs(context),
    receiptKeys: openReceiptKeys(context),
    budgets: openBudgets(context),
    rates: openRates(context),
    vault: openVault(context),
    consents: openConsents(context),
    callers: openProtocolSessions(context),
    notices: openNotices(context),
    pins: openPins(context),
    sources: openSources(context),
    workflows: openWorkflows(context),
    requests: openIdempotentRequests(context),
    tasks: openTasks(context),
    pastSearches: openPastSearches(context),
    resumptions: openResumptions(context),
    standingRules: openStandingRules(context),
  }))
}
