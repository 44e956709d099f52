import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useSession } from '../api/session.ts'
import { setSingleKeys, singleKeys, useKey } from '../keyboard.ts'
import { Dialog } from '../parts/dialog.tsx'
import { Checkbox } from '../parts/field.tsx'
import { useStore } from '../store.ts'
import { openDialog, type PagePath, pagesFor } from './pages.ts'
import { toggleTheme } from './theme.ts'
import { WORDS } from './words.tsx'

/*
 * The shortcuts that work on all pages, and the list that `?` opens. Used by `frame.tsx`. No shortcut approves, rejects, settles or
 * revokes.
 */

export function KeyMap(): ReactNode {
  const isOpen = useStore(openDialog) === 'keys'
  const isOn = useStore(singleKeys)
  const pages = pagesFor(useSession())
  useKey('?', () => openDialog.set('keys'))
  useKey('t', toggleTheme)
  useKey('/', () => document.querySelector<HTMLElement>('[data-page-search]')?.focus())
  return (
    <>
      {pages.map((page) => (
        <GoTo key={page.to} to={page.to} letter={page.key} />
      ))}
      <Dialog title={WORDS.keyboardShortcuts} isOpen={isOpen} onClose={() => openDialog.set('nothing')}>
        <dl className="kv keymap">
          {shortcutsOf(pages).map(([keys, effect]) => (
            <div key={effect}>
              <dt>
                {keys.split(' ').map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </dt>
              <dd>{effect}</dd>
            </div>
          ))}
        </dl>
        <Checkbox
          label={WORDS.enableLetterShortcuts}
          checked={isOn}
          onChange={(event) => setSingleKeys(event.currentTarget.checked)}
        />
      </Dialog>
    </>
  )
}

function GoTo({ to, letter }: GoToProps): ReactNode {
  const navigate = useNavigate()
  useKey(`g ${letter}`, () => void navigate({ to }))
  return null
}

interface GoToProps {
  readonly to: PagePath
  readonly letter: string
}

function shortcutsOf(pages: ReturnType<typeof pagesFor>): readonly (readonly [string, string])[] {
  return [
    [WORDS.kCtrlK, WORDS.openPageOrTool],
    ...pages.map(({ key, name }) => [`g ${key}`, WORDS.go(name)] as const),
    ['/', WORDS.searchOrFilterThisPage],
    ['j k ↓ ↑', WORDS.moveInList],
    ['↵', WORDS.open],
    ['esc', WORDS.closeDialogClearSearchOr],
    [WORDS.ctrl, WORDS.runToolTry],
    ['l', WORDS.turnLiveUpdatesOnOr],
    ['y', WORDS.copyThisPagesCommand],
    ['t', WORDS.switchTheme],
    ['?', WORDS.showTheseShortcuts],
  ]
}
