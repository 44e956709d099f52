import type { ReactNode } from 'react'
import { type Principal, useSession, useSignIn } from '../../api/session.ts'
import { Icon } from '../../parts/icon.tsx'
import { Menu, type MenuChoice } from '../../parts/menu.tsx'
import { openDialog } from '../pages.ts'
import { toggleTheme } from '../theme.ts'
import { WORDS } from './words.tsx'

/*
 * The name and role of the signed-in person, if any, with a menu: jump, theme, shortcuts, sign in or out. Used by `page.tsx` and
 * `rail.tsx`.
 */

/** `isSmall` shows an icon instead of the name. */
export function AccountMenu({ isSmall = false }: { readonly isSmall?: boolean }): ReactNode {
  const session = useSession()
  const { signOut } = useSignIn()
  if (session === undefined) return null
  const { principal } = session
  const name = principal === null ? WORDS.notSignedIn : (principal.name ?? principal.id)
  const items: readonly MenuChoice[] = [
    { label: WORDS.jump, icon: 'search', onChoose: () => openDialog.set('palette') },
    { label: WORDS.switchTheme, icon: 'theme', onChoose: toggleTheme },
    { label: WORDS.keyboardShortcuts, icon: 'terminal', onChoose: () => openDialog.set('keys') },
    principal === null
      ? { label: WORDS.signIn, icon: 'key', onChoose: () => openDialog.set('sign-in') }
      : { label: WORDS.signOut, icon: 'lock', onChoose: () => void signOut() },
  ]
  if (isSmall)
    return (
      <Menu
        className="btn quiet icon you-small"
        hasArrow={false}
        items={items}
        label={
          <>
            <Icon name="you" />
            <span className="vh">{name}</span>
          </>
        }
      />
    )
  return (
    <Menu
      className="who grow plain"
      hasArrow={false}
      items={items}
      label={
        <>
          <b className="clip">{name}</b>
          <span className="clip">
            {principal === null ? accessWithoutSignIn(session.server) : roleOf(principal, name)}
          </span>
        </>
      }
    />
  )
}

function accessWithoutSignIn({ isOpen }: { readonly isOpen: boolean }): string {
  return isOpen ? WORDS.readOnly : WORDS.signInContinue
}

/** The role is left out if it equals the name above it, as for the operator. */
function roleOf({ isOperator, tenant }: Principal, name: string): string {
  const role = isOperator ? 'operator' : 'caller'
  return role === name ? `tenant ${tenant}` : WORDS.tenant(role, tenant)
}
