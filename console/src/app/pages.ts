import { holdsScope, holdsServerScope, type Session } from '../api/session.ts'
import type { IconName } from '../parts/icon.tsx'
import { createStore } from '../store.ts'

/*
 * The pages of the console, who may open which, and the dialog that is open over them. The rail, the palette, the shortcuts and the
 * landing page use this list. Invariant: a page that the credential may not see is offered nowhere; at its address it names the scope.
 */

interface PageEntry {
  readonly to: string
  readonly name: string
  readonly icon: IconName
  /** Typing `g` and then this letter opens the page. */
  readonly key: string
  /** Whether the page has anything for the person. */
  readonly isFor: (session: Session) => boolean
}

/** The pages in the order of the rail and of the bar on phones. */
export const PAGES = [
  { to: '/overview', name: 'Overview', icon: 'overview', key: 'o', isFor: holds('admin:calls') },
  { to: '/tools', name: 'Tools', icon: 'tools', key: 't', isFor: () => true },
  { to: '/calls', name: 'Calls', icon: 'calls', key: 'c', isFor: holds('admin:calls') },
  {
    to: '/approvals',
    name: 'Approvals',
    icon: 'approvals',
    key: 'a',
    isFor: holds('approvals:respond', 'approvals:read'),
  },
  {
    to: '/sources',
    name: 'Sources',
    icon: 'sources',
    key: 's',
    isFor: ({ principal }) =>
      holdsServerScope(principal, 'admin:sources') || holdsServerScope(principal, 'admin:pins'),
  },
  // Each person who signed in sees and connects accounts there.
  { to: '/access', name: 'Access', icon: 'access', key: 'k', isFor: ({ principal }) => principal !== null },
  { to: '/audit', name: 'Audit', icon: 'audit', key: 'u', isFor: holds('audit:read') },
  { to: '/settings', name: 'Settings', icon: 'settings', key: 'e', isFor: () => true },
] as const satisfies readonly PageEntry[]

export type PagePath = (typeof PAGES)[number]['to']

/** The pages that are offered to the person; none before the session is known, or before a required sign-in. */
export function pagesFor(session: Session | undefined): readonly (typeof PAGES)[number][] {
  if (session === undefined || (session.principal === null && !session.server.isOpen)) return []
  return PAGES.filter(({ isFor }) => isFor(session))
}

/** The page that a person sees first: the overview for operators, the inbox for approvers, the journal for auditors. */
export function landingFor(session: Session): PagePath {
  const { principal } = session
  const isOperator = OPERATOR_SCOPES.some((scope) => holdsScope(principal, scope))
  if (isOperator && holdsScope(principal, 'admin:calls')) return '/overview'
  if (holdsScope(principal, 'approvals:respond')) return '/approvals'
  if (holdsScope(principal, 'audit:read')) return '/audit'
  return holdsScope(principal, 'admin:calls') ? '/overview' : '/tools'
}

/** Who holds one of these runs the server; approvers and auditors may see its calls too. */
const OPERATOR_SCOPES = ['admin:sources', 'admin:keys', 'admin:reload']

function holds(...scopes: readonly string[]): PageEntry['isFor'] {
  return ({ principal }) => scopes.some((scope) => holdsScope(principal, scope))
}

/** The dialog that is open over the page. */
export const openDialog = createStore<'nothing' | 'palette' | 'keys' | 'sign-in'>('nothing')
