import type { ReactNode } from 'react'
import { formatDuration } from '../../parts/format.ts'
import { Icon, type IconName } from '../../parts/icon.tsx'
import type { ToolDetails, ToolPolicy } from './tool-data.ts'

/*
 * The policy of a tool in words, with the policy's own values. `page.tsx` uses it.
 */

/** Policy of the tool in words; the policy's own value is at the right. */
export function Rules({ tool }: { readonly tool: ToolDetails }): ReactNode {
  return (
    <section aria-labelledby="rules-h">
      <h2 id="rules-h">Permissions</h2>
      <ul className="rules">
        {rulesOf(tool).map(({ icon, text, word }) => (
          <li key={word}>
            <Icon name={icon} size={14} />
            <span>{text}</span>
            <code className="dim">{word}</code>
          </li>
        ))}
      </ul>
    </section>
  )
}

interface Rule {
  readonly icon: IconName
  readonly text: ReactNode
  readonly word: string
}

function rulesOf({ policy, keeps_state: keepsState, steps }: ToolDetails): readonly Rule[] {
  return [
    TIERS[policy.tier],
    egressRule(policy),
    approvalRule(policy),
    replayRule(policy),
    ...(policy.scopes.length === 0 ? [] : [scopeRule(policy)]),
    ...(policy.tenants === null ? [] : [tenantRule(policy.tenants)]),
    {
      icon: 'clock',
      text: `Times out after ${formatDuration(policy.timeout_ms)}.`,
      word: 'timeout',
    },
    ...(keepsState
      ? [{ icon: 'pin', text: 'Keeps state between calls of a session.', word: 'session' } as const]
      : []),
    ...(steps.length === 0
      ? []
      : [{ icon: 'workflow', text: <>Calls {listed(steps)}.</>, word: 'workflow' } as const]),
  ]
}

const TIERS: Readonly<Record<ToolPolicy['tier'], Rule>> = {
  pure: { icon: 'eye', text: 'Computes only.', word: 'pure' },
  read: { icon: 'eye', text: 'Reads. Changes nothing.', word: 'read' },
  write: { icon: 'alert', text: 'Changes external state.', word: 'write' },
  exec: { icon: 'terminal', text: "Runs a program on the server's machine.", word: 'exec' },
}

function egressRule({ egress, egress_allow: allowed }: ToolPolicy): Rule {
  const local = allowed ?? []
  if (egress === 'none') return { icon: 'globe', text: 'No network access.', word: 'none' }
  if (egress === 'safe-fetch')
    return {
      icon: 'globe',
      text: (
        <>
          Network access only through the guarded fetch: public addresses
          {local.length === 0 ? '' : <> and {listed(local)}</>}.
        </>
      ),
      word: 'safe-fetch',
    }
  if (egress !== null)
    return { icon: 'globe', text: 'Network access: declared by the source, not enforced.', word: egress }
  return { icon: 'globe', text: 'Network access: not declared.', word: 'egress' }
}

function approvalRule({ approval, approval_terms: terms }: ToolPolicy): Rule {
  if (approval === 'never' || terms === null)
    return { icon: 'approvals', text: 'Runs without approval.', word: 'never' }
  const who = terms.quorum > 1 ? `${terms.quorum} people approve` : 'a person approves'
  const when =
    approval === 'conditional' && terms.by_rule
      ? `Some calls wait until ${who} them; an approval rule selects them.`
      : `Each call waits until ${who} it.`
  return {
    icon: 'approvals',
    text: (
      <>
        {when} A request expires after {formatDuration(terms.expires_after_ms)}.
        {terms.required_scope !== null && (
          <>
            {' '}
            Approvers need the scope <b>{terms.required_scope}</b>.
          </>
        )}
        {terms.self_approval && ' Callers may approve their own calls.'}
      </>
    ),
    word: approval,
  }
}

function replayRule({ replay, tier, rerun_window_ms: windowMs }: ToolPolicy): Rule {
  const hasEffects = tier === 'write' || tier === 'exec'
  const cut = !hasEffects
    ? 'it may run again.'
    : replay === 'idempotent'
      ? `it may run again within ${formatDuration(windowMs)}.`
      : 'an operator must settle it first.'
  return {
    icon: 'loop',
    text: `Retries with the same call ID return the stored result. After a crash, ${cut}`,
    word: replay,
  }
}

function scopeRule({ scopes }: ToolPolicy): Rule {
  return {
    icon: 'lock',
    text: (
      <>
        Callers need the scope{scopes.length === 1 ? '' : 's'} {listed(scopes)}.
      </>
    ),
    word: 'scopes',
  }
}

function tenantRule(tenants: readonly string[]): Rule {
  return {
    icon: 'lock',
    text: (
      <>
        Only for the tenant{tenants.length === 1 ? '' : 's'} {listed(tenants)}.
      </>
    ),
    word: 'tenants',
  }
}

function listed(words: readonly string[]): ReactNode {
  return words.map((word, index) => (
    <span key={word}>
      {index === 0 ? '' : ', '}
      <b>{word}</b>
    </span>
  ))
}
