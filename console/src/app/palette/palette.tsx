import {
  Combobox,
  ComboboxItem,
  ComboboxList,
  ComboboxProvider,
  Dialog,
  useComboboxStore,
} from '@ariakit/react'
import { type ReactNode, useState } from 'react'
import { useKey } from '../../keyboard.ts'
import { Icon } from '../../parts/icon.tsx'
import { messageOf } from '../../parts/states.tsx'
import { useStore } from '../../store.ts'
import { openDialog } from '../pages.ts'
import { type Target, useTargets } from './targets.tsx'
import { WORDS } from './words.ts'

/*
 * Finds pages, tools and everything else by a few letters, and runs commands. `frame.tsx` uses it. A command that takes time keeps the
 * palette open and tells its result there.
 */

export function Palette(): ReactNode {
  const isOpen = useStore(openDialog) === 'palette'
  const close = (): void => {
    // A command may have opened another dialog.
    if (openDialog.get() === 'palette') openDialog.set('nothing')
  }
  useKey('mod+k', () => openDialog.set(isOpen ? 'nothing' : 'palette'))
  return (
    <Dialog
      open={isOpen}
      onClose={close}
      className="palette over"
      aria-label={WORDS.palette}
      backdrop={<div className="backdrop" />}
      unmountOnHide
    >
      <Jump onDone={close} />
    </Dialog>
  )
}

function Jump({ onDone }: { readonly onDone: () => void }): ReactNode {
  const [text, setText] = useState('')
  const [outcome, setOutcome] = useState('')
  const targets = useTargets(text.trim())
  const list = useComboboxStore({ open: true, value: text, setValue: setText })
  const choose = (target: Target | undefined): void => {
    if (target === undefined) return
    const { command } = target
    if (command?.work === undefined) {
      onDone()
      if (command === undefined) target.go()
      else command.run?.()
      return
    }
    setOutcome(WORDS.running(command.label))
    command.work().then(setOutcome, (error: unknown) => setOutcome(messageOf(error)))
  }
  // A fast typist may press Enter before the first result is selected.
  const chosen = (): Target | undefined =>
    targets.find((_, index) => idOf(index) === list.getState().activeId) ?? targets[0]
  return (
    <ComboboxProvider store={list}>
      <div className="row palette-q">
        <Icon name="search" size={14} className="dim" />
        <Combobox
          className="palette-input"
          aria-label={WORDS.field}
          placeholder={WORDS.field}
          autoSelect="always"
          data-autofocus="true"
          onChange={() => {
            setOutcome('')
            list.setActiveId(undefined)
          }}
          onKeyDown={(event) => {
            if (event.key !== 'Enter') return
            event.preventDefault()
            choose(chosen())
          }}
        />
        <kbd>esc</kbd>
      </div>
      <ComboboxList alwaysVisible aria-label={WORDS.results}>
        {targets.map((target, index) => (
          <ComboboxItem
            key={target.key}
            id={idOf(index)}
            className="palette-item"
            value={target.key}
            setValueOnClick={false}
            hideOnClick={false}
            focusOnHover
            onClick={() => choose(target)}
          >
            <Icon name={target.icon} size={14} />
            <span className="grow clip" dir="auto">
              {target.label}
            </span>
            {target.hint !== '' && <kbd>{target.hint}</kbd>}
          </ComboboxItem>
        ))}
      </ComboboxList>
      {targets.length === 0 && <p className="palette-none soft">{WORDS.nothing(text)}</p>}
      <p role="status" className={outcome === '' ? 'vh' : 'palette-none'}>
        {outcome}
      </p>
    </ComboboxProvider>
  )
}

function idOf(index: number): string {
  return `jump-${index}`
}
