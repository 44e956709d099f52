import { approvalsApprove } from '#cli/commands/approvals-approve'
import { approvalsLink } from '#cli/commands/approvals-link'
import { approvalsList } from '#cli/commands/approvals-list'
import { approvalsReject } from '#cli/commands/approvals-reject'
import { approvalsShow } from '#cli/commands/approvals-show'
import { backup } from '#cli/commands/backup'
import { call } from '#cli/commands/call'
import { calls } from '#cli/commands/calls'
import { callsCancel } from '#cli/commands/calls-cancel'
import { callsSettle } from '#cli/commands/calls-settle'
import { doctor } from '#cli/commands/doctor'
import { importSource } from '#cli/commands/import'
import { journal } from '#cli/commands/journal'
import { journalHeads } from '#cli/commands/journal-heads'
import { journalVerify } from '#cli/commands/journal-verify'
import { keysCreate } from '#cli/commands/keys-create'
import { keysGenerate } from '#cli/commands/keys-generate'
import { keysList } from '#cli/commands/keys-list'
import { keysRevoke } from '#cli/commands/keys-revoke'
import { keysRotate } from '#cli/commands/keys-rotate'
import { mcp } from '#cli/commands/mcp'
import { opentoolExport } from '#cli/commands/opentool-export'
import { opentoolStart } from '#cli/commands/opentool-start'
import { opentoolValidate } from '#cli/commands/opentool-validate'
import { pinsAccept } from '#cli/commands/pins-accept'
import { pinsDiff } from '#cli/commands/pins-diff'
import { pinsList } from '#cli/commands/pins-list'
import { pinsReject } from '#cli/commands/pins-reject'
import { secretsList } from '#cli/commands/secrets-list'
import { secretsRemove } from '#cli/commands/secrets-remove'
import { secretsSet } from '#cli/commands/secrets-set'
import { serve } from '#cli/commands/serve'
import { sources } from '#cli/commands/sources'
import { sourcesRefresh } from '#cli/commands/sources-refresh'
import { sourcesRemove } from '#cli/commands/sources-remove'
import { tools } from '#cli/commands/tools'
import { vaultRotate } from '#cli/commands/vault-rotate'
import { version } from '#cli/commands/version'
import type { Command } from './command.ts'

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  serve,
  mcp,
  tools,
  sources,
  sourcesRefresh,
  sourcesRemove,
  call,
  calls,
  callsSettle,
  callsCancel,
  approvalsList,
  approvalsShow,
  approvalsApprove,
  approvalsReject,
  approvalsLink,
  pinsList,
  pinsDiff,
  pinsAccept,
  pinsReject,
  journal,
  journalVerify,
  journalHeads,
  importSource,
  secretsSet,
  secretsList,
  secretsRemove,
  vaultRotate,
  opentoolStart,
  opentoolValidate,
  opentoolExport,
  backup,
  doctor,
  keysCreate,
  keysRotate,
  keysList,
  keysRevoke,
  keysGenerate,
  version,
]
