/** Tells what a POST stores from what it does: a command is not a resource. */
import { splitWords } from '../names.js';

/** The last segments of paths that are commands. */
const COMMANDS: ReadonlySet<string> = new Set(
  (
    'action auth batch block bookmark bulk charge check clone command copy count download estimate evaluate export filter ' +
    'graphql import install invite invoke link list lock login logout lookup mark match merge move notify open ping preview ' +
    'process push query refresh register release render report request reset restore retry rpc run scan schedule search set ' +
    'share sign signin signup split start status stop subscribe swap switch sync test transfer translate trigger ' +
    'unsubscribe update upload validate verify'
  ).split(' '),
);
/** Words that also start the name of a command, such as `change_status`. */
const VERBS: ReadonlySet<string> = new Set(
  (
    'abort accept activate add analyze append approve archive assign attach authenticate authorize calculate cancel change ' +
    'clear close complete compute confirm connect convert create deactivate decline delete deny deploy detach detect ' +
    'disable disconnect dismiss enable enqueue execute fetch find generate get grant inspect mute parse pause promote ' +
    'publish purge put reboot rebuild recalculate reject remove rename renew replace resend resize resolve restart resume ' +
    'revoke rollback rotate save send shutdown submit suspend terminate unarchive unassign unblock uninstall unlink unlock ' +
    'unpublish upgrade'
  ).split(' '),
);

/** Whether the path of a POST ends with a command: `/pets/search`, `/pets/{id}/change_status`, `/pets:archive`. */
export function isCommand(path: string): boolean {
  const segment = path.replace(/\/$/, '').split(/[/:.]/).at(-1)!;
  const [first = '', ...others] = splitWords(segment).map((word) => word.toLowerCase());
  return VERBS.has(first) || (others.length === 0 && COMMANDS.has(first));
}
