import type { StoreContext } from '#kernel/store/engine'
import { KERNEL_MODULES } from '#kernel/store/kernel-modules'
import { defineStore } from '#kernel/store/module'
import { createStore, type StoreParts } from '#kernel/store/store'
import type { Store } from '#store/ports/store'
import { consentModule, sqlChallenges, sqlConsents } from './consents.ts'
import { importModule, sqlPins, sqlSources } from './imports.ts'
import { keyModule, sqlAudit, sqlKeys } from './keys.ts'
import { limitModule, sqlBudgets, sqlRates } from './limits.ts'
import { noticeModule, sqlNotices } from './notices.ts'
import { operatorModule, sqlOperatorViews } from './operator-views.ts'
import { protocolModule, sqlIdempotentRequests, sqlProtocolSessions } from './protocol-state.ts'
import { rejectionModule, sqlRejections } from './rejections.ts'
import { rotationModule, sqlKeyChange } from './rotation.ts'
import { sqlVault, vaultModule } from './vault.ts'
import { sqlVerification, verifyModule } from './verify.ts'
import { sqlWorkflows, workflowModule } from './workflows.ts'

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
