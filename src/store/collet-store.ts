import type { Store } from '#core/ports/store'
import { operatorModule, sqlOperatorViews } from './calls/operator-views.ts'
import { rejectionModule, sqlRejections } from './calls/rejections.ts'
import { sqlWorkflows, workflowModule } from './calls/workflows.ts'
import { consentModule, sqlChallenges, sqlConsents } from './consents.ts'
import type { StoreContext } from './engine.ts'
import { importModule, sqlPins, sqlSources } from './imports.ts'
import { KERNEL_MODULES } from './kernel-modules.ts'
import { keyModule, sqlAudit, sqlKeys } from './keys.ts'
import { limitModule, sqlBudgets, sqlRates } from './limits.ts'
import { defineStore } from './module.ts'
import { noticeModule, sqlNotices } from './notices.ts'
import { protocolModule, sqlIdempotentRequests, sqlProtocolSessions } from './protocol-state.ts'
import { rotationModule, sqlKeyChange } from './rotation.ts'
import { createStore, type StoreParts } from './store.ts'
import { sqlVault, vaultModule } from './vault.ts'
import { sqlVerification, verifyModule } from './verify.ts'

/**
 * The store of the product: the kernel's modules and those of every other subject. A new subject is one entry in each of
 * the two lists below.
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
  rejectionModule,
  operatorModule,
  workflowModule,
  verifyModule,
])

function openModules(context: StoreContext) {
  return {
    ...sqlOperatorViews(context),
    ...sqlChallenges(context),
    ...sqlVerification(context),
    keys: sqlKeys(context),
    keyChange: sqlKeyChange(context),
    audit: sqlAudit(context),
    rejections: sqlRejections(context),
    budgets: sqlBudgets(context),
    rates: sqlRates(context),
    vault: sqlVault(context),
    consents: sqlConsents(context),
    callers: sqlProtocolSessions(context),
    notices: sqlNotices(context),
    pins: sqlPins(context),
    sources: sqlSources(context),
    workflows: sqlWorkflows(context),
    requests: sqlIdempotentRequests(context),
  }
}

export function createColletStore(parts: StoreParts): Store {
  return createStore(parts, openModules)
}
