import type { Webhook } from '#config/webhooks'
import type { ApprovalRecord } from '#kernel/approval/approval'
import { needsMoreThanLink, principalNamedByLink } from '#kernel/approval/approvals'
import { type ApprovalView, approvalView, mintLink } from '#kernel/approval/decisions'
import type { AlertCondition, NoticeKind, NoticeSubject } from '#kernel/journal/notices'
import type { KernelStore } from '#kernel/store/store'
import { renderApproval, renderInList } from '#server/admin/approvals'
import { SHOWN_UNITS } from '#server/admin/usage'
import { type ChatNotice, chatMessage } from './chat-messages.ts'

/*
 * The content of webhook messages for each kind of notice. Used by the outbox and by test messages.
 * Invariant: a message contains no more of a call than its approver may see.
 */

/** Maximum size of an input in a message. For a larger input the message has only `input_bytes`; the approval page shows the input. */
const MAX_INPUT_BYTES = 64 * 1024
/** Maximum number of lines in a chat message; the JSON has all lines. */
const MAX_LINES = 10

/** The content of a message, for programs and for people. */
interface Content {
  readonly data: object
  readonly chat: ChatNotice
}

interface Message extends Content {
  readonly type: NoticeKind
  /** Time of the event. */
  readonly atMs: number
  /** True for a test message without an event. */
  readonly isTest?: boolean
}

/** The body in the format of the receiver. */
export function bodyOf({ format }: Pick<Webhook, 'format'>, message: Message): string {
  const { type, atMs, data, chat, isTest = false } = message
  if (format !== 'json')
    return chatMessage(format, isTest ? { ...chat, title: `Test, nothing happened: ${chat.title}` } : chat)
  const timestamp = new Date(atMs).toISOString()
  return JSON.stringify({ type, timestamp, ...(isTest ? { test: true } : {}), data })
}

type ApprovalSubject = Extract<NoticeSubject, { readonly approval: string }>

/** Further facts that the content about an approval depends on. */
interface ApprovalContext {
  readonly store: Pick<KernelStore, 'sign'>
  readonly nowMs: number
  readonly publicUrl: string
  /** True if approvers can sign in; otherwise links that could not decide are left out (rule 23). */
  readonly canSignIn: boolean
}

/** The content about an approval: its result, or the request with its input, unless that is too large, and with a link if the receiver has an approver. */
export function approvalContent(
  context: ApprovalContext,
  webhook: Pick<Webhook, 'approver' | 'name'>,
  { subject, approval }: { readonly subject: ApprovalSubject; readonly approval: ApprovalRecord },
): Content {
  const view = approvalView(approval, { nowMs: context.nowMs, isStale: false, served: undefined })
  const url = `${context.publicUrl}/approvals/${approval.id}`
  const facts = [['Caller', view.principal] as const, ['Call', view.callId] as const]
  const viewAction = { label: 'View', url }
  switch (subject.kind) {
    case 'approval.requested':
      return questionContent(context, webhook, { approval, view, url, facts })
    case 'approval.decided':
      return {
        data: { ...renderInList(view), decided: subject.as, decided_by: subject.by, url },
        chat: {
          title: `${view.tool} was ${subject.as === 'granted' ? 'approved' : 'rejected'}`,
          facts: [...facts, ['By', subject.by]],
          action: viewAction,
        },
      }
    case 'approval.expired':
      return {
        data: { ...renderInList(view), url },
        chat: {
          title: `The approval of ${view.tool} expired without a decision, so the call was not run`,
          facts,
          action: viewAction,
        },
      }
  }
}

interface QuestionParts {
  readonly approval: ApprovalRecord
  readonly view: ApprovalView
  readonly url: string
  readonly facts: ChatNotice['facts']
}

function questionContent(
  { store, canSignIn, publicUrl }: ApprovalContext,
  { approver, name }: Pick<Webhook, 'approver' | 'name'>,
  { approval, view, url, facts }: QuestionParts,
): Content {
  const link =
    approver === undefined ||
    (needsMoreThanLink(approval) && !canSignIn) ||
    // An approver gets no link to its own call.
    principalNamedByLink(approver, approval) === approval.principal
      ? undefined
      : `${publicUrl}/approve/${mintLink(store, approval, { approver, power: 'decide', maker: `webhook ${name}` })}`
  const render = view.inputBytes <= MAX_INPUT_BYTES ? renderApproval : renderInList
  return {
    data: { ...render(view), url, ...(link === undefined ? {} : { approver, link }) },
    chat: {
      title: `${view.tool} waits for approval`,
      facts: [...facts, ['Expires', new Date(view.expiresAtMs).toISOString()]],
      detail: JSON.stringify(view.summary, undefined, 2),
      action: link === undefined ? { label: 'View', url } : { label: 'Decide', url: link },
    },
  }
}

type OtherSubject = Exclude<NoticeSubject, ApprovalSubject>
type SubjectOf<Kind> = Extract<NoticeSubject, { readonly kind: Kind }>

/** Messages of all other kinds: the facts, a command for details, and the page of the console, if it is served. */
export function noticeContent(subject: OtherSubject, consoleUrl: string | undefined): Content {
  const { data, chat, path } = contentOf(subject)
  if (consoleUrl === undefined) return { data, chat }
  const url = `${consoleUrl}/${path}`
  return { data: { ...data, url }, chat: { ...chat, action: { label: 'View', url } } }
}

/** A message, and the path of its page in the console. */
interface ContentWithPath extends Content {
  readonly path: string
}

function contentOf(subject: OtherSubject): ContentWithPath {
  switch (subject.kind) {
    case 'source.added':
      return sourceContent(subject)
    case 'pin.held':
      return heldContent(subject)
    case 'call.ambiguous':
      return ambiguousContent(subject)
    case 'budget.80':
    case 'budget.100':
      return budgetContent(subject)
    case 'alert.started':
    case 'alert.ended':
      return alertContent(subject)
  }
}

function sourceContent(subject: SubjectOf<'source.added'>): ContentWithPath {
  const { source, sourceType, target, replaced, changes, by } = subject
  const rules = Object.entries(changes).map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
  return {
    path: 'sources',
    data: { source, type: sourceType, target, replaced, changes, by },
    chat: {
      title: `The source ${source} was ${replaced ? 'changed' : 'added'}`,
      facts: [
        ...(target === null ? [] : [['Target', target] as const]),
        ['By', by],
        ['See', 'collet sources'],
      ],
      ...(rules.length === 0 ? {} : { detail: linesOf(rules, rules.length) }),
    },
  }
}

function heldContent(subject: SubjectOf<'pin.held'>): ContentWithPath {
  const { source, count, tools } = subject
  const what = count === 1 ? '1 changed definition' : `${count} changed definitions`
  return {
    path: 'sources',
    data: { source, count, tools },
    chat: {
      title: `${what} of ${source} ${count === 1 ? 'waits' : 'wait'} for an operator`,
      facts: [['See', 'collet pins list, collet pins diff TOOL']],
      detail: linesOf(
        tools.map((pin) => `${pin.tool}: ${pin.class}`),
        count,
      ),
    },
  }
}

function ambiguousContent({ calls }: SubjectOf<'call.ambiguous'>): ContentWithPath {
  const [first, ...others] = calls
  const isOne = first !== undefined && others.length === 0
  const what = isOne ? '1 call' : `${calls.length} calls`
  return {
    path: isOne ? `calls/${encodeURIComponent(first.record)}` : 'calls?q=state%3Aambiguous',
    data: { count: calls.length, calls },
    chat: {
      title: `It is unknown whether ${what} took effect, because a server crashed while running ${isOne ? 'it' : 'them'}`,
      facts: [['See', 'collet calls --state ambiguous, collet calls settle RECORD']],
      detail: linesOf(
        calls.map(({ tool, record, principal, tenant }) => `${tool} ${record} by ${principal} (${tenant})`),
        calls.length,
      ),
    },
  }
}

function budgetContent(subject: Extract<NoticeSubject, { readonly unit: string }>): ContentWithPath {
  const { kind, window, unit, used, limit } = subject
  const { tenant, principal, startMs, lengthMs } = window
  const { unit: counted, parts } = SHOWN_UNITS[unit]
  const resetsAt = new Date(startMs + lengthMs).toISOString()
  const percent = kind === 'budget.100' ? 100 : 80
  return {
    path: 'settings',
    data: {
      ...{ percent, tenant, principal: principal ?? null, window_seconds: lengthMs / 1_000 },
      ...{ resets_at: resetsAt, unit: counted, used: used / parts, limit: limit / parts },
    },
    chat: {
      title: `${percent} % of a budget of ${principal ?? `the tenant ${tenant}`} is used`,
      facts: [
        ['Tenant', tenant],
        ['Used', `${used / parts} of ${limit / parts} ${counted}`],
        ['Resets at', resetsAt],
        ['See', 'collet budgets, collet usage'],
      ],
    },
  }
}

function alertContent(subject: SubjectOf<'alert.started' | 'alert.ended'>): ContentWithPath {
  const { name, condition } = subject.alert
  const { data, chat, path } = conditionContent(condition)
  const facts = [['Alert', name] as const, ...chat.facts]
  const shown = { name, condition: condition.kind, ...data }
  if (subject.kind === 'alert.started') return { path, data: shown, chat: { ...chat, facts } }
  const { startedAtMs, why } = subject
  const title = why === 'removed' ? `No longer watched: ${name}` : `Recovered: ${name}`
  return {
    path,
    data: { ...shown, started_at: new Date(startedAtMs).toISOString(), reason: why },
    chat: { ...chat, title, facts },
  }
}

function conditionContent(condition: AlertCondition): ContentWithPath {
  switch (condition.kind) {
    case 'error-rate': {
      const { tool, tenant, windowMs, abovePercent, calls, errors } = condition
      const percent = calls === 0 ? 0 : Math.round((errors / calls) * 1_000) / 10
      return {
        path: `calls?q=${encodeURIComponent(`status:error${tool === undefined ? '' : ` tool:${tool}`}`)}`,
        data: {
          ...{ tool: tool ?? null, tenant: tenant ?? null, window_seconds: windowMs / 1_000 },
          ...{ above_percent: abovePercent, percent, calls, errors },
        },
        chat: {
          title: `${percent} % of the calls${tool === undefined ? '' : ` of ${tool}`} failed`,
          facts: [
            [
              'Errors',
              `${errors} of ${calls} calls in ${windowMs / 60_000} minutes, reported above ${abovePercent} %`,
            ],
            ...(tenant === undefined ? [] : [['Tenant', tenant] as const]),
            ['See', 'collet overview, collet calls --state error'],
          ],
        },
      }
    }
    case 'budget': {
      const { tenant, principal, unit, used, limit, abovePercent } = condition
      const percent = Math.floor((used / limit) * 100)
      return {
        path: 'settings',
        data: {
          tenant,
          principal: principal ?? null,
          unit,
          used,
          limit,
          percent,
          above_percent: abovePercent,
        },
        chat: {
          title: `${percent} % of a budget of ${principal ?? `the tenant ${tenant}`} is used`,
          facts: [
            ['Tenant', tenant],
            ['Used', `${used} of ${limit} ${unit}`],
            ['See', 'collet budgets, collet usage'],
          ],
        },
      }
    }
    case 'source-down': {
      const { source, sinceMs } = condition
      const since = new Date(sinceMs).toISOString()
      return {
        path: 'sources',
        data: { source, since },
        chat: {
          title: `The source ${source} is down`,
          facts: [
            ['Since', since],
            ['See', 'collet sources'],
          ],
        },
      }
    }
  }
}

function linesOf(lines: readonly string[], count: number): string {
  const shown = lines.slice(0, MAX_LINES)
  return [...shown, ...(count > shown.length ? [`and ${count - shown.length} more`] : [])].join('\n')
}
