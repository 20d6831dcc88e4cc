# A program whose stacks are known: what can be on them is in e2e/test_perl.py. Recursion, methods, closures, callbacks out of C (sort,
# List::Util), ties, overloading, destructors, evals, exceptions, code in patterns, formats; `spin` is where most of the time goes, and
# in `slow` nearly all.
use strict;
use warnings;
use List::Util qw(first reduce any);
use Time::HiRes ();
use utf8;

our $scale = 1;

sub spin {
    my ($n) = @_;
    my $x = 0;
    $n *= $scale;
    for (my $i = 0; $i < $n; $i++) {
        $x += $i * $i % 7;
    }
    return $x;
}

sub recurse {
    my ($depth) = @_;
    return spin(1000) if $depth == 0;
    return recurse($depth - 1);
}

package Base {
    our $AUTOLOAD;
    use overload '+' => sub { main::spin(400); $_[0] }, '""' => \&text, '<=>' => sub { main::spin(50); 0 };

    sub new {
        my ($class) = @_;
        main::spin(400);
        return bless {}, $class;
    }

    sub text { main::spin(400); 'text' }

    sub AUTOLOAD { main::spin(400) }

    sub DESTROY { main::spin(300) }
}

package Worker {
    our @ISA = ('Base');

    sub new {
        my ($class) = @_;
        my $self = $class->SUPER::new;
        main::spin(300);
        return $self;
    }

    sub method { main::recurse(8) }
}

package Tied {
    sub TIESCALAR { bless [], shift }
    sub FETCH { main::spin(400); 1 }
    sub STORE { eval { main::spin(200); 1 }; main::spin(200) }
}

sub objects {
    my $w = Worker->new;
    $w->method;
    $w->absent;
    my $sum = $w + 1;
    return sprintf '%s', $w;
}

sub compare { spin(60); $a <=> $b }

sub sorted { return sort compare reverse 1 .. 12 }

sub sorted_block {
    return sort { spin(60); $a <=> $b } reverse 1 .. 12;
}

sub ordered { spin(60); return $_[0] <=> $_[1] }

sub sorted_last { return sort { ordered($a, $b) } reverse 1 .. 6 }

sub listed {
    my $found = first { spin(200); $_ == 3 } 1 .. 5;
    my $sum = reduce { spin(200); $a + $b } 1 .. 5;
    return any { deep($_) } 1 .. 2;
}

sub deep {
    my $any = first { recurse(2) < 0 } 1 .. 2;
    return;
}

sub tied_one {
    tie my $x, 'Tied';
    my $y = $x;
    $x = 1;
    untie $x;
}

sub raising {
    spin(500);
    die "no\n";
}

sub catching {
    eval { raising(); 1 } or spin(300);
}

sub evaluated { return eval 'spin(500)' }

sub mapped {
    return map { spin($_) } 400, 500;
}

my @closures = map { my $n = $_; sub { spin($n) } } 300, 400;

sub closures { $_->() for @closures }

sub pattern { return 'aab' =~ /a(?{ spin(100) })b/ }

sub caught {
    my @sorted = sort { eval { raising() }; spin(50); $a <=> $b } 1 .. 4;
    return;
}

sub replaced { (my $x = 'abcabc') =~ s/a/spin(200)/ge }

unshift @INC, sub { return $_[1] eq 'Made.pm' ? \(my $text = 'main::spin(300); 1') : () };

sub required {
    delete $INC{'Made.pm'};
    require Made;
}

open NULL, '>', '/dev/null' or die;

format NULL =
@<<<
spin(200)
.

sub written { write NULL }

sub Größe { return spin(500) }

sub 名前 { return spin(500) }

sub work {
    objects();
    my @sorted = sorted();
    @sorted = sorted_block();
    @sorted = sorted_last();
    listed();
    tied_one();
    catching();
    evaluated();
    mapped();
    closures();
    pattern();
    caught();
    replaced();
    required();
    written();
    Größe();
    名前();
}

sub slow {
    local $scale = 500;
    work();
    return;
}

sub run {
    my ($seconds) = @_;
    my $until = Time::HiRes::time() + $seconds;
    while (Time::HiRes::time() < $until) {
        work() for 1 .. 500;
        slow();
    }
}

run($ARGV[0] // 1);
