import { wordsOf } from '../../../src/sources/kit/command-words.ts'

/**
 * As a POSIX shell takes it for one word, whatever is in it. Every command that the console shows is put together with this: what
 * is copied into a terminal means there what it means here, and runs nothing else.
 */
export function quoted(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}

/** The same in a terminal. The shell cuts a command as the server does: nothing in it is more than a word. */
export function importCommand(target: string): string {
  return isCommand(target)
    ? `collet import -- ${wordsOf(target).map(quoted).join(' ')}`
    : `collet import ${quoted(target.replace(/^file:\/\//i, ''))}`
}

/** Words that are no address and no file are a program with its arguments. */
export function isCommand(target: string): boolean {
  return !/^(?:https?|file):\/\//i.test(target) && !/^\S+\.(?:json|ya?ml)$/i.test(target)
}

/** A command that may be meant as a file: one word that is a path. */
export function looksLikeFile(target: string): boolean {
  return isCommand(target) && /^(?:~|\.{0,2})\/\S*$/.test(target)
}

/** What no shell reads anything into. zsh looks for a program behind an `=` at the beginning. */
const PLAIN = /^[\w@%+:,./-][\w@%+=:,./-]*$/
