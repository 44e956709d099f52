import type { IconName } from '../parts/icon.tsx'
import { createStore } from '../store.ts'

/*
 * The list of pages and the dialog that is open over them. Used by several modules. Only one of these dialogs is open at a time.
 */

/** The pages in the order of the rail and of the bar on phones. Typing `g` and then `key` opens a page. */
export const PAGES = [
  { to: '/catalog', name: 'Catalog', icon: 'catalog', key: 'c' },
  { to: '/calls', name: 'Calls', icon: 'calls', key: 'l' },
  { to: '/approvals', name: 'Approvals', icon: 'approvals', key: 'a' },
  { to: '/connections', name: 'Connections', icon: 'connections', key: 'n' },
  { to: '/settings', name: 'Settings', icon: 'settings', key: 's' },
] as const satisfies readonly { to: string; name: string; icon: IconName; key: string }[]

/** The dialog that is open over the page. */
export const openDialog = createStore<'nothing' | 'palette' | 'keys' | 'sign-in'>('nothing')
