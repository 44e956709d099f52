import type { ReactNode } from 'react'
import { formatDuration } from '../../parts/format.ts'
import { Icon, type IconName } from '../../parts/icon.tsx'
import type { ToolDetails, ToolPolicy } from './tool-data.ts'
import { WORDS } from './words.tsx'

/*
 * The policy of a tool in words, with the policy's own values. `page.tsx` uses it.
 */

/** Policy of the tool in words; the policy's own value is at the right. */
export function Rules({ tool }: { readonly tool: ToolDetails }): ReactNode {
  return (
    <section aria-labelledby="rules-h">
      <h2 id="rules-h">{WORDS.permissions}</h2>
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
      text: WORDS.timesOutAfter(formatDuration(policy.timeout_ms)),
      word: 'timeout',
    },
    ...(keepsState
      ? [{ icon: 'pin', text: WORDS.keepsStateBetweenCallsSession, word: 'session' } as const]
      : []),
    ...(steps.length === 0
      ? []
      : [{ icon: 'workflow', text: <>{WORDS.calls2(listed(steps))}</>, word: 'workflow' } as const]),
  ]
}

const TIERS: Readonly<Record<ToolPolicy['tier'], Rule>> = {
  pure: { icon: 'eye', text: WORDS.computesOnly, word: 'pure' },
  read: { icon: 'eye', text: WORDS.readsChangesNothing, word: 'read' },
  write: { icon: 'alert', text: WORDS.changesExternalState, word: 'write' },
  exec: { icon: 'terminal', text: WORDS.runsProgramOnServersMachine, word: 'exec' },
}

function egressRule({ egress, egress_allow: allowed }: ToolPolicy): Rule {
  const local = allowed ?? []
  if (egress === 'none') return { icon: 'globe', text: WORDS.noNetworkAccess, word: 'none' }
  if (egress === 'safe-fetch')
    return {
      icon: 'globe',
      text: (
        <>
          {WORDS.networkAccessOnlyThroughGuarded}
          {local.length === 0 ? '' : <> {WORDS.and(listed(local))}</>}.
        </>
      ),
      word: 'safe-fetch',
    }
  if (egress !== null) return { icon: 'globe', text: WORDS.networkAccessDeclaredBySource, word: egress }
  return { icon: 'globe', text: WORDS.networkAccessNotDeclared, word: 'egress' }
}

function approvalRule({ approval, approval_terms: terms }: ToolPolicy): Rule {
  if (approval === 'never' || terms === null)
    return { icon: 'approvals', text: WORDS.runsWithoutApproval, word: 'never' }
  const who = terms.quorum > 1 ? WORDS.peopleApprove(terms.quorum) : WORDS.personApproves
  const when =
    approval === 'conditional' && terms.by_rule
      ? WORDS.someCallsWaitUntilThem(who)
      : WORDS.eachCallWaitsUntil(who)
  return {
    icon: 'approvals',
    text: (
      <>
        {WORDS.requestExpiresAfter(when, formatDuration(terms.expires_after_ms))}
        {terms.required_scope !== null && <>{WORDS.approversNeedScope(<b>{terms.required_scope}</b>)}</>}
        {terms.self_approval && WORDS.callersMayApproveTheirOwn}
      </>
    ),
    word: approval,
  }
}

function replayRule({ replay, tier, rerun_window_ms: windowMs }: ToolPolicy): Rule {
  const hasEffects = tier === 'write' || tier === 'exec'
  const cut = !hasEffects
    ? WORDS.mayRunAgain
    : replay === 'idempotent'
      ? WORDS.mayRunAgainWithin(formatDuration(windowMs))
      : WORDS.operatorMustSettleFirst
  return {
    icon: 'loop',
    text: WORDS.retriesWithSameCallId(cut),
    word: replay,
  }
}

function scopeRule({ scopes }: ToolPolicy): Rule {
  return {
    icon: 'lock',
    text: <>{WORDS.callersNeedScope(scopes.length === 1 ? '' : 's', listed(scopes))}</>,
    word: 'scopes',
  }
}

function tenantRule(tenants: readonly string[]): Rule {
  return {
    icon: 'lock',
    text: <>{WORDS.onlyForTenant(tenants.length === 1 ? '' : 's', listed(tenants))}</>,
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
